"""The instance's own secrets: made at the first start, kept as files that only their owner reads.

A value in the environment wins over its file. Who is given which of them is `environment.py`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from nacl.public import PrivateKey

from bursar.core.crypto import lookup_hash
from bursar.core.tokens import derive_key
from bursar.settings import PREFIX, Settings, SettingsError
from bursar.supervisor.directory import keep

KEY_BYTES = 32


@dataclass(frozen=True, repr=False)
class InstanceSecrets:
    operator_key: str
    key_pepper: bytes
    seal_private_key: bytes
    own_processor_secret: bytes = b""  # empty: derived
    operator_key_file: Path | None = None  # None: it came with the environment
    operator_key_is_new: bool = False

    @property
    def seal_public_key(self) -> bytes:
        return public_half(self.seal_private_key)

    @property
    def processor_secret(self) -> bytes:
        return self.own_processor_secret or derive_key(self.key_pepper, "bursar processor simulator")

    @property
    def operator_key_hash(self) -> str:
        return lookup_hash(self.key_pepper, self.operator_key)


def new() -> InstanceSecrets:
    return InstanceSecrets(_new_operator_key(), secrets.token_bytes(KEY_BYTES), bytes(PrivateKey.generate()))


def load_or_make(settings: Settings) -> InstanceSecrets:
    """What the environment or the data directory holds; the rest is made and kept."""
    place = settings.data_dir / "secrets"
    given = settings.operator_key.get_secret_value()
    kept = operator_key_path(settings.data_dir)
    is_new = not given and not kept.exists()
    private = settings.seal_private_key or _bytes_in(place / "seal_private_key")
    for name, value in (("KEY_PEPPER", settings.key_pepper), ("SEAL_PRIVATE_KEY", private)):
        if value and len(value) != KEY_BYTES:
            raise SettingsError(f"{PREFIX}{name} must be {KEY_BYTES} bytes, as {2 * KEY_BYTES} hexadecimal digits")
    if settings.seal_public_key and settings.seal_public_key != public_half(private):
        raise SettingsError(f"{PREFIX}SEAL_PUBLIC_KEY is not the public half of {PREFIX}SEAL_PRIVATE_KEY")
    return InstanceSecrets(
        operator_key=given or _text_in(kept, _new_operator_key()),
        key_pepper=settings.key_pepper or _bytes_in(place / "key_pepper"),
        seal_private_key=private,
        own_processor_secret=settings.processor_secret,
        operator_key_file=None if given else kept,
        operator_key_is_new=is_new,
    )


def operator_key_path(data_dir: Path) -> Path:
    return data_dir / "secrets" / "operator_key"


def public_half(private: bytes) -> bytes:
    return bytes(PrivateKey(private).public_key)


def _new_operator_key() -> str:
    return f"op_{secrets.token_urlsafe(32)}"


def _text_in(path: Path, default: str) -> str:
    if not path.exists():
        keep(path, default + "\n")
    return path.read_text().strip()


def _bytes_in(path: Path) -> bytes:
    text = _text_in(path, secrets.token_hex(KEY_BYTES))
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != KEY_BYTES:
        raise SettingsError(f"{path} does not hold {KEY_BYTES} bytes in hexadecimal digits; restore it from a backup")
    return value
