"""Compliance requests on the wire."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StringConstraints

from bursar.features.compliance.states import Status
from bursar.features.uploads.schemas import Document
from bursar.http.body import Upload
from bursar.http.schemas import Form, IsoMoment, PageQuery, StrictBody, StrictQuery

Type = Literal["document", "information", "ownership", "bank", "website", "source_of_funds"]
FieldType = Literal["text", "number", "date", "boolean", "file"]
Block = Literal["payments", "payouts"]

FILES_LARGEST = 10


class RequestField(StrictBody):
    key: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,39}$")]
    label: Annotated[str, StringConstraints(min_length=1, max_length=190)]
    type: FieldType = "text"
    required: bool = True


class ComplianceRequest(msgspec.Struct):
    id: int
    account_id: str
    type: Type
    title: str
    description: str
    fields: list[dict[str, Any]]
    status: Status
    blocking: list[str]
    due_at: datetime
    submitted_at: datetime | None
    decided_at: datetime | None
    decision_notes: str | None
    documents: list[Document]
    created_at: datetime


class ComplianceQuery(PageQuery):
    status: Status | None = None
    type: Type | None = None


def _object(value: Any) -> Any:
    """`answers` is JSON text in a form."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except ValueError:
            raise ValueError("must be a JSON object") from None
    if not isinstance(value, dict):
        raise ValueError("must be a JSON object")
    return value


class Response(Form):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    answers: Annotated[dict[str, Any], BeforeValidator(_object)] = Field(
        default_factory=dict, description="Answers by the keys of the request's fields."
    )
    files: list[Upload] = Field(default_factory=list, max_length=FILES_LARGEST, description="PDF, JPEG or PNG.")


def _unique(fields: list[RequestField]) -> list[RequestField]:
    if len({field.key for field in fields}) != len(fields):
        raise ValueError("keys must be unique")
    return fields


class NewComplianceRequest(StrictBody):
    merchant: str | int = Field(description="Merchant number or account id.")
    type: Type
    title: Annotated[str, StringConstraints(min_length=1, max_length=190)]
    description: Annotated[str, StringConstraints(max_length=5000)] = ""
    fields: Annotated[list[RequestField], Field(max_length=30), AfterValidator(_unique)] = Field(default_factory=list)
    blocking: Annotated[list[Block], Field(max_length=2)] = Field(default_factory=list)
    due_at: IsoMoment | None = Field(None, description="Default: in 14 days.")


class Decision(StrictBody):
    decision: Literal["approved", "rejected", "cancelled"]
    notes: Annotated[str, StringConstraints(max_length=5000)] | None = None


class ComplianceSearch(StrictQuery):
    page: int = Field(1, ge=1, le=1_000_000)
    per_page: int = Field(25, ge=1, le=100)
    status: Status | None = None
    type: Type | None = None
    merchant: str | None = Field(None, max_length=40)


class StaffView(msgspec.Struct):
    """A compliance request with the answers, for staff."""

    request: ComplianceRequest
    merchant_id: int
    responses: list[dict[str, Any]]
