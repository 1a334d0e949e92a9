"""Bank accounts on the wire: safe references only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import Field, StringConstraints

from bursar.http.schemas import Body, Email, PageQuery, StrictBody

UseFor = Literal["payout", "supplier", "merchant", "employee", "other"]
Status = Literal["pending", "active", "disabled"]
NameCheck = Literal["matched", "partial", "no_match", "not_checked"]

Line = Annotated[str, StringConstraints(min_length=1, max_length=140, pattern=r"^[^\x00-\x1f\x7f]*$")]


class BankAccount(msgspec.Struct):
    id: str
    account_name: str
    bank_name: str
    currency: str
    country: str
    last4: str
    use_for: UseFor
    is_default: bool
    status: Status
    name_check: NameCheck
    created_at: datetime


class NewBankAccount(Body):
    account_name: Line = Field(description="The name on the account.")
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]
    bank_name: Line | None = None
    sort_code: Annotated[str, StringConstraints(max_length=16)] | None = Field(None, description="GB: 6 digits.")
    account_number: Annotated[str, StringConstraints(max_length=16)] | None = Field(None, description="GB: 8 digits.")
    iban: Annotated[str, StringConstraints(max_length=64)] | None = Field(None, description="Elsewhere.")
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = None
    use_for: UseFor | None = None
    is_default: bool | None = Field(None, description="The first account of its use and currency is, unless false.")
    full_name: Line | None = None
    email: Email | None = None


class BankAccountQuery(PageQuery):
    status: Status | None = None
    use_for: UseFor | None = None
    currency: str | None = Field(None, max_length=3)


class Decision(StrictBody):
    decision: Literal["active", "disabled"]
    notes: Annotated[str, StringConstraints(max_length=2000)] = ""
