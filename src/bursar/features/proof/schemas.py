"""Proof on the wire."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec
from pydantic import ConfigDict, Field, StringConstraints

from bursar.features.payments.schemas import ProofStatus, SentAmount, Transaction
from bursar.http.body import Upload
from bursar.http.schemas import Email, Form, StrictBody

Short = Annotated[str, StringConstraints(max_length=190)]
Notes = Annotated[str, StringConstraints(max_length=5000)]


class Buyer(msgspec.Struct):
    firstname: str | None
    lastname: str | None
    phone: str | None
    email: str | None


class ProofRequest(msgspec.Struct):
    id: int
    transaction_id: int
    status: ProofStatus
    reason: str
    invoice_file_required: bool
    courier_company: str | None
    tracking_number: str | None
    buyer: Buyer
    has_invoice_file: bool
    merchant_notes: str | None
    staff_notes: str | None
    created_at: datetime
    submitted_at: datetime | None
    decided_at: datetime | None


class Proof(msgspec.Struct):
    """A proof request, and the transaction with its reserve."""

    proof_request: ProofRequest
    transaction: Transaction


class Reserve(msgspec.Struct):
    """What happened to the reserve of a transaction, in the events of a balance."""

    account_id: str
    transaction_id: int
    currency: str
    amount: Decimal
    reserve_amount: Decimal


class SubmittedProof(Form):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    courier_company: Short | None = None
    tracking_number: Short | None = None
    buyer_firstname: Short | None = None
    buyer_lastname: Short | None = None
    buyer_phone: Annotated[str, StringConstraints(max_length=40)] | None = None
    buyer_email: Email | None = None
    merchant_notes: Notes | None = None
    invoice_file: list[Upload] = Field(default_factory=list, max_length=1, description="JPEG, PNG, PDF or WEBP.")


class NewProofRequest(StrictBody):
    reason: Notes = Field(min_length=1, description="Shown to the merchant.")
    invoice_file_required: bool = False
    reserve_amount: SentAmount | None = Field(None, description="What to hold meanwhile; default the net amount.")


class Approval(StrictBody):
    notes: Notes | None = None
    release_amount: SentAmount | None = Field(None, description="What to release; default all that is held.")


class Rejection(StrictBody):
    notes: Notes | None = None
