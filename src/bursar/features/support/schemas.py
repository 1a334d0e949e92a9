"""Support tickets on the wire."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, StringConstraints

from bursar.features.support.states import Status
from bursar.features.uploads.schemas import Document
from bursar.http.body import Upload
from bursar.http.schemas import Form, PageQuery, StrictBody, StrictQuery

Category = Literal["payments", "payouts", "disputes", "terminal", "kyc", "account", "other"]
Priority = Literal["low", "normal", "high", "urgent"]
Author = Literal["merchant", "platform", "staff"]

ATTACHMENTS_LARGEST = 5


def _text(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError("must be text")
    return value


Text = Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1, max_length=10_000)]


class Related(msgspec.Struct):
    type: str
    id: str


class Message(msgspec.Struct):
    id: int
    author: Author
    body: str
    attachments: list[Document]
    created_at: datetime


class Ticket(msgspec.Struct):
    id: int
    ticket_ref: str
    account_id: str
    subject: str
    category: Category
    priority: Priority
    status: Status
    related: Related | None
    messages: list[Message]
    created_at: datetime
    updated_at: datetime


class RelatedTo(Form):
    type: Annotated[str, BeforeValidator(_text), StringConstraints(pattern=r"^[a-z_]{1,40}$")]
    id: Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value),
                  StringConstraints(min_length=1, max_length=190)]  # fmt: skip


class NewTicket(Form):
    """As JSON, or as a form with files."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    subject: Annotated[str, BeforeValidator(_text), StringConstraints(min_length=1, max_length=190)]
    body: Text = Field(validation_alias=AliasChoices("body", "message"), description="The first message.")
    category: Category = "other"
    priority: Priority = "normal"
    related: RelatedTo | None = Field(None, description="What it is about, for example a transaction.")
    attachments: list[Upload] = Field(default_factory=list, max_length=ATTACHMENTS_LARGEST)


class NewMessage(Form):
    """As JSON, or as a form with files."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    body: Text = Field(validation_alias=AliasChoices("body", "message"))
    attachments: list[Upload] = Field(default_factory=list, max_length=ATTACHMENTS_LARGEST)


class TicketQuery(PageQuery):
    status: Status | None = None
    category: Category | None = None
    priority: Priority | None = None
    q: str | None = Field(None, max_length=190)


class StaffMessage(StrictBody):
    body: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
    status: Literal["open", "waiting_merchant", "waiting_staff", "resolved", "closed"] | None = Field(
        None, description="Default: waiting_merchant."
    )


class TicketSearch(StrictQuery):
    page: int = Field(1, ge=1, le=1_000_000)
    per_page: int = Field(25, ge=1, le=100)
    status: Status | None = None
    category: Category | None = None
    merchant: str | None = Field(None, max_length=40)
