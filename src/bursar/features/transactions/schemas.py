"""Queries of transactions."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from bursar.features.payments.schemas import TransactionStatus
from bursar.http.schemas import PageQuery


def _day_or_moment(value: Any) -> Any:
    """A day, or a moment with its time zone."""
    if isinstance(value, str):
        try:
            if len(value) == 10:
                return date.fromisoformat(value)
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("must be a date, or a date and time, as ISO 8601 writes them") from None
        if moment.tzinfo is None:
            raise ValueError("must have a time zone")
        return moment
    return value


Moment = Annotated[datetime | date | None, BeforeValidator(_day_or_moment)]


class TransactionQuery(PageQuery):
    status: TransactionStatus | None = None
    q: str | None = Field(
        None,
        max_length=190,
        description="A reference, an identifier or an e-mail address; or any part of these, of the customer's name or"
        " of the remark, among the newest 10,000.",
    )
    search: str | None = Field(None, max_length=190, description="Alias of q.")
    since: Moment = Field(None, alias="from", description="First day (in London) or moment of creation.")
    until: Moment = Field(None, alias="to", description="Last day (in London) or moment of creation.")
