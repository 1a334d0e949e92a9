"""Bases and field types of request bodies and queries. Bodies are strict: a string is not a number, 1 is not true."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

METADATA_KEYS = 50
METADATA_KEY_LONGEST = 40
METADATA_VALUE_LONGEST = 500
METADATA_LARGEST = 16 * 1024


_EMAIL = re.compile(r"[^@\s]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")


class Body(BaseModel):
    """A body whose unknown fields are ignored (legacy and dispute routes)."""

    model_config = ConfigDict(strict=True, extra="ignore", str_strip_whitespace=True)


class StrictBody(BaseModel):
    """A body whose unknown fields are refused (the bound families and the operator API)."""

    model_config = ConfigDict(strict=True, extra="forbid", str_strip_whitespace=True)


class Form(BaseModel):
    """The fields of an upload, which arrive as text."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class Query(BaseModel):
    """Query parameters; unknown ones are ignored."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)


class StrictQuery(BaseModel):
    """Query parameters of the bound families and the operator API; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


def _iso_date(value: Any) -> Any:
    if isinstance(value, str):
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
            raise ValueError("must be a date as YYYY-MM-DD")
        try:
            return date.fromisoformat(value)
        except ValueError:
            raise ValueError("must be an existing date as YYYY-MM-DD") from None
    return value


def _iso_moment(value: Any) -> Any:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("must be an ISO 8601 date and time") from None
        if moment.tzinfo is None:
            raise ValueError("must have a time zone")
        return moment.astimezone(UTC)
    return value


def _day_or_moment(value: Any) -> Any:
    if isinstance(value, str):
        return _iso_date(value) if len(value) == 10 else _iso_moment(value)
    return value


def _metadata(value: dict[str, Any]) -> dict[str, Any]:
    if len(value) > METADATA_KEYS:
        raise ValueError(f"must have at most {METADATA_KEYS} keys")
    size = 0
    for name, entry in value.items():
        if len(name) > METADATA_KEY_LONGEST:
            raise ValueError(f"keys must have at most {METADATA_KEY_LONGEST} characters")
        if isinstance(entry, str) and len(entry) > METADATA_VALUE_LONGEST:
            raise ValueError(f"values must have at most {METADATA_VALUE_LONGEST} characters")
        size += len(name.encode()) + len(str(entry).encode())
    if size > METADATA_LARGEST:
        raise ValueError("must have at most 16 KB in all")
    return value


def _email(value: str) -> str:
    if not _EMAIL.fullmatch(value):
        raise ValueError("must be an e-mail address")
    return value


IsoDate = Annotated[date, BeforeValidator(_iso_date)]
IsoMoment = Annotated[datetime, BeforeValidator(_iso_moment)]
DayOrMoment = Annotated[datetime | date | None, BeforeValidator(_day_or_moment)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Email = Annotated[str, StringConstraints(min_length=3, max_length=190), AfterValidator(_email)]
Metadata = Annotated[dict[str, Any], AfterValidator(_metadata)]


class PageQuery(Query):
    """Paging of a legacy list: `page`, `per_page` (also as `limit`) and `sort`."""

    page: int = Field(1, ge=1, le=1_000_000, description="Page number, from 1.")
    per_page: int | None = Field(None, ge=1, le=100, description="Rows a page; default 25.")
    limit: int | None = Field(None, ge=1, le=100, description="Alias of per_page.")
    sort: str = Field("-id", max_length=40, description="Field to sort by; a leading minus descends.")

    @property
    def size(self) -> int:
        return self.per_page or self.limit or 25
