"""Every setting, typed, with its default and a sentence on what it does.

A setting `name` is read from the environment variable `BURSAR_NAME`; `bursar settings` lists them all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from bursar.core.tokens import PageKeys, derive_key

PREFIX = "BURSAR_"


class SettingsError(ValueError):
    """A setting is missing or wrong; the message is one line that names it."""


def _words(value: Any) -> Any:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _networks(value: Any) -> Any:
    return tuple(ip_network(part, strict=False) for part in _words(value)) if isinstance(value, str) else value


def _page_key(value: bytes) -> bytes:
    if len(value) not in (0, 32, 64):
        raise ValueError("must be 32 or 64 bytes, in hex")
    return value


def _hex(value: Any) -> Any:
    return bytes.fromhex(value) if isinstance(value, str) else value


Words = Annotated[tuple[str, ...], BeforeValidator(_words)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_networks)]
Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], BeforeValidator(_words)]
HexBytes = Annotated[bytes, BeforeValidator(_hex), Field(repr=False)]
PageKey = Annotated[HexBytes, AfterValidator(_page_key)]


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    env: Literal["live", "test"] = Field(
        "live",
        description="`test` adds the processor simulator, the movable clock and the operator API's simulator.",
    )
    host: str = Field("127.0.0.1", description="Address the service listens on.")
    port: int = Field(8484, ge=0, le=65535, description="Port the service listens on.")
    base_url: str = Field("", description="Public address of the service; default http://host:port.")
    public_test: bool = Field(False, description="Lets a test instance listen on an address that is not loopback.")
    data_dir: Path = Field(Path("data"), description="Where the embedded database, its secrets and the logs live.")
    ops_listen: str = Field("", description="host:port that serves /ops alone, instead of the main address.")
    trusted_proxies: Networks = Field((), description="Networks whose X-Forwarded-* headers are believed.")

    database_url: SecretStr = Field(
        SecretStr(""), description="PostgreSQL for the service role bursar_app; empty: the embedded server."
    )
    migration_url: SecretStr = Field(
        SecretStr(""),
        description="The same database as its owner; used by `bursar migrate` and `bursar serve` only.",
    )
    pool_size: int = Field(8, ge=1, le=200, description="Database connections of one API process.")
    pool_wait_s: float = Field(2.0, gt=0, description="Longest wait for a connection before a request gets 503.")
    sandbox_pool_size: int = Field(2, ge=1, le=50, description="Database connections of one API process's sandbox.")
    api_processes: int = Field(
        max(1, (os.cpu_count() or 2) // 2),
        ge=1,
        le=64,
        description="API processes that `bursar serve` starts.",
    )
    group_commit: bool = Field(True, description="Lets requests that wait together share a database transaction.")

    operator_key: SecretStr = Field(SecretStr(""), description="Bearer key of the operator API.")
    operator_key_hash: str = Field("", description="Keyed hash of the operator key; what API processes are given.")
    key_pepper: HexBytes = Field(b"", description="32 bytes, hex: keys the hashes by which API keys are found.")
    seal_public_key: HexBytes = Field(b"", description="32 bytes, hex: seals secrets for the worker.")
    seal_private_key: HexBytes = Field(b"", description="32 bytes, hex: opens them; for worker processes only.")

    page_key: PageKey = Field(
        b"", description="32 or 64 bytes, hex: makes the links of hosted pages; default derived from key_pepper."
    )
    page_key_previous: PageKey = Field(b"", description="The page key before: its links still open, none are made.")

    processor_secret: HexBytes = Field(
        b"", description="32 bytes, hex: shared with the processor simulator; default derived from key_pepper."
    )
    processor_timeout_s: float = Field(10.0, gt=0, le=15, description="Longest wait for a card processor's answer.")
    simulator_port: int = Field(
        0, ge=0, le=65535, description="Port of the processor simulator, on host; 0: the main port plus one, or any."
    )
    simulator_url: str = Field("", description="Public address of the simulator; default http://host:simulator_port.")

    currencies: Words = Field(("GBP", "EUR", "USD"), description="ISO codes that payments may use.")
    modulus_table: Path | None = Field(
        None, description="The published table of bank account check weights; default: the few ranges that come along."
    )
    global_limits: Literal["auto", "on", "off"] = Field(
        "auto",
        description="The throttles per second and per address; auto: on for live, off for test instances.",
    )
    reads_per_second: int = Field(200, ge=1, description="Reads per second of one caller on one account.")
    writes_per_second: int = Field(100, ge=1, description="Writes per second of one caller on one account.")
    sandbox_per_second: int = Field(25, ge=1, description="Sandbox requests per second of one caller.")
    pages_per_minute: int = Field(120, ge=1, description="Requests a minute for hosted pages from one address.")
    failed_auth_per_minute: int = Field(300, ge=1, description="Failed authentications a minute from one address.")

    delivery_ports: Ports = Field((443,), description="Ports that webhooks and IPNs may go to; test instances: any.")
    delivery_refused: Networks = Field((), description="Networks never sent to, besides all that are not public.")
    delivery_connect_s: float = Field(5.0, gt=0, le=60, description="Longest wait for a receiver's connection.")
    delivery_total_s: float = Field(15.0, gt=0, le=120, description="Longest wait for a receiver's answer.")
    delivery_lease_s: float = Field(
        30.0, gt=0, le=600, description="How long after a worker died another sends what it was about to."
    )

    delivery_log_days: int = Field(
        90, ge=7, le=3650, description="How long deliveries are kept after their last attempt, with all attempts."
    )
    notice_days: int = Field(90, ge=7, le=3650, description="How long notices to people are kept, sent or not.")
    callback_days: int = Field(90, ge=7, le=3650, description="How long processors' callbacks are kept, once applied.")

    smtp_url: SecretStr = Field(
        SecretStr(""),
        description="Where e-mail goes: smtp://user:password@host:587 (STARTTLS) or smtps://…; empty: nowhere.",
    )
    customer_notices: bool = Field(True, description="Sends customers their receipts and notices of refunds.")
    mail_from: str = Field("Bursar <no-reply@localhost>", description="Sender of the e-mail that the service sends.")

    crashpoint: str = Field("", description="Where a test instance shall die, for tests of faults.")

    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least level that is logged.")
    log_format: Literal["json", "console"] = Field("json", description="One JSON object a line, or text for people.")
    access_log: bool = Field(True, description="One log line per request.")

    @field_validator("crashpoint")
    @classmethod
    def _only_test_instances_die(cls, value: str, info: ValidationInfo) -> str:
        if value and info.data.get("env") != "test":
            raise ValueError("is for test instances only")
        return value

    @property
    def is_test(self) -> bool:
        return self.env == "test"

    @property
    def limits_on(self) -> bool:
        return self.global_limits == "on" or (self.global_limits == "auto" and not self.is_test)

    @cached_property
    def page_keys(self) -> PageKeys:
        return PageKeys(self.page_key or derive_key(self.key_pepper, "bursar page key"), self.page_key_previous)

    @cached_property
    def file_key(self) -> bytes:
        """Encrypts uploads."""
        return derive_key(self.key_pepper, "bursar file store")

    @cached_property
    def simulator_secret(self) -> bytes:
        return self.processor_secret or derive_key(self.key_pepper, "bursar processor simulator")

    @property
    def simulator_public_url(self) -> str:
        return (self.simulator_url or f"http://{self.host}:{self.simulator_port or self.port + 1}").rstrip("/")

    @property
    def public_url(self) -> str:
        return (self.base_url or f"http://{self.host}:{self.port}").rstrip("/")


def load(environment: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Settings from the environment; `overrides` (command-line options) win where they are not None."""
    environment = os.environ if environment is None else environment
    names = {PREFIX + name.upper(): name for name in Settings.model_fields}
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in names)
    if unknown:
        raise SettingsError(f"unknown setting {unknown[0]}; `bursar settings` lists those there are")
    values: dict[str, Any] = {name: environment[env] for env, name in names.items() if environment.get(env)}
    values.update({name: value for name, value in overrides.items() if value is not None})
    try:
        return Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise SettingsError(f"{PREFIX}{str(first['loc'][0]).upper()}: {first['msg']}") from None
