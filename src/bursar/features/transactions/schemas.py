"""Queries of transactions."""

from __future__ import annotations

from pydantic import Field

from bursar.features.payments.schemas import TransactionStatus
from bursar.http.schemas import DayOrMoment, PageQuery


class TransactionQuery(PageQuery):
    status: TransactionStatus | None = None
    q: str | None = Field(
        None,
        max_length=190,
        description="A reference, an identifier or an e-mail address; or any part of these, of the customer's name or"
        " of the remark, among the newest 10,000.",
    )
    search: str | None = Field(None, max_length=190, description="Alias of q.")
    since: DayOrMoment = Field(None, alias="from", description="First day (in London) or moment of creation.")
    until: DayOrMoment = Field(None, alias="to", description="Last day (in London) or moment of creation.")
