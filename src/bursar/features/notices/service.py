"""Notices to people, made from events. A feature that wants its people told emits the event and adds a letter.

The fan-out makes a notice of every event in `catalogue.MAIL_TO`, once, in its own transaction; here it is written and
given to whoever it is for:

- merchants, at their account's address, unless their platform speaks to them itself (`connect_email_sms_handle` is
  `platform`): then it hears of everything by webhook, and the service says nothing;
- customers, at the address given with the payment. That setting is about merchants; a customer has no other way to
  hear from us, so theirs are sent either way. `customer_notices` switches them off for the whole instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import msgspec
import structlog

from bursar.db.pool import Database, Record
from bursar.events.catalogue import MAIL_TO
from bursar.features.notices import queries
from bursar.features.notices.letters import LETTERS, Told
from bursar.features.notices.queries import Content, Outcome, Sms
from bursar.features.notices.writing import message_id, written
from bursar.settings import Settings

log = structlog.get_logger()

_read = msgspec.json.Decoder(float_hook=Decimal).decode


async def write(db: Database, rows: Sequence[Record], settings: Settings) -> list[Record]:
    """Writes notices that have only their event yet; returns those that can be sent."""
    ready = [row for row in rows if row["recipient"] is not None]
    fresh = [row for row in rows if row["recipient"] is None]
    if not fresh:
        return ready
    async with db.transaction() as connection:
        facts = await queries.facts(connection, fresh)
        contents: list[Content] = []
        messages: list[Sms] = []
        nobody: list[Record] = []
        broken: list[Outcome] = []
        for row in fresh:
            try:
                content, sms = _compose(row, facts.get((row["account_id"], row["event_id"])), settings)
            except Exception:
                log.exception("notice.not_written", notice_id=row["id"], event_type=row["template"])
                broken.append(Outcome(row, "failed", "could not be written"))
                continue
            if content is None:
                nobody.append(row)
            else:
                contents.append(content)
            if sms is not None:
                messages.append(sms)
        if nobody:
            await queries.drop(connection, nobody)
        if messages:
            await queries.add_sms(connection, messages)
        if broken:
            await queries.record(connection, broken)
        return ready + (await queries.write(connection, contents) if contents else [])


def _compose(row: Record, fact: Record | None, settings: Settings) -> tuple[Content | None, Sms | None]:
    """The notice in words, and its text message if it is urgent. Nothing, when nobody is to be told."""
    to = MAIL_TO.get(row["template"])
    if fact is None or to is None or (not settings.smtp_url.get_secret_value() and not settings.is_test):
        return None, None
    data = _read(fact["body"])["data"]
    if to == "customer":
        recipient = data["transaction"].get("customer_email") if settings.customer_notices else None
    else:
        recipient = None if fact["platform_speaks"] else fact["email"]
    if not recipient:
        return None, None
    told = Told(row["account_id"], fact["business"], data, fact["created_at"], settings)
    letter = LETTERS[row["template"]](told)
    text = written(letter, told.business, to, recipient, settings)
    content = Content(row, recipient, text.subject, text.text, text.html, message_id(row["event_id"], settings))
    reachable = letter.urgent and to == "merchant" and fact["mobile"]
    return content, Sms(row, fact["mobile"], text.subject) if reachable else None
