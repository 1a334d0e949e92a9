"""Notices to people. They are written with what they tell of, and sent by the worker on the deliveries' schedule.

Whoever lets their platform speak to them (`connect_email_sms_handle` is `platform`) gets none from the service: the
platform hears of everything by webhook.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from email.utils import make_msgid
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import urlsplit

import jinja2

from bursar.db.pool import Queryable
from bursar.settings import Settings

Template = Literal[
    "receipt",
    "verification_link",
    "payout_paid",
    "payout_failed",
    "dispute_opened",
    "webhook_disabled",
]

_LOADER = jinja2.FunctionLoader(lambda name: (files(__package__) / "templates" / name).read_text())
_TEXT = jinja2.Environment(loader=_LOADER, undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - plain text
_HTML = jinja2.Environment(loader=_LOADER, undefined=jinja2.StrictUndefined, autoescape=True)


async def to_merchant(
    db: Queryable, account_id: int, template: Template, values: Mapping[str, Any], now: datetime, settings: Settings
) -> bool:
    """A notice to an account's own address; False when its platform speaks for the service."""
    account = await db.fetchrow(
        "SELECT email, business_company_name, platform_id, connect_email_sms_handle FROM account WHERE account_id = $1",
        account_id,
    )
    if account is None or (account["platform_id"] is not None and account["connect_email_sms_handle"] == "platform"):
        return False
    facts = {"business": account["business_company_name"], **values}
    await to_address(db, account_id, account["email"], template, facts, now, settings)
    return True


async def to_address(
    db: Queryable, account_id: int, address: str, template: Template, values: Mapping[str, Any], now: datetime,
    settings: Settings,
) -> None:  # fmt: skip
    """A notice to anybody, such as a customer, on behalf of an account."""
    subject, text, html = written(template, values)
    domain = urlsplit(settings.public_url).hostname or "localhost"
    await _queue(db, account_id, "email", template, address, subject, text, html, make_msgid(domain=domain), now)


async def by_sms(
    db: Queryable, account_id: int, number: str, template: Template, values: Mapping[str, Any], now: datetime
) -> None:
    """The subject line of a notice, as a text message."""
    subject, _, _ = written(template, values)
    await _queue(db, account_id, "sms", template, number, subject, subject, "", "", now)


def written(template: Template, values: Mapping[str, Any]) -> tuple[str, str, str]:
    """Subject, text and page of a notice. The first line of a template is the subject."""
    rendered = _TEXT.get_template(f"{template}.txt").render(values)
    subject, _, text = rendered.partition("\n")
    text = text.strip() + "\n"
    paragraphs = [paragraph.split("\n") for paragraph in text.strip().split("\n\n")]
    html = _HTML.get_template("layout.html").render(subject=subject, paragraphs=paragraphs)
    return " ".join(subject.split()), text, html


async def _queue(
    db: Queryable, account_id: int, channel: str, template: str, recipient: str, subject: str, text: str, html: str,
    message_id: str, now: datetime,
) -> None:  # fmt: skip
    await db.execute(
        """
        INSERT INTO notice
            (account_id, id, channel, template, recipient, subject, body_text, body_html, message_id, next_attempt_at,
             created_at)
        VALUES ($1, nextval('notice_id'), $2, $3, $4, $5, $6, $7, $8, $9, $9)
        """,
        account_id, channel, template, recipient, subject, text, html, message_id, now,
    )  # fmt: skip
