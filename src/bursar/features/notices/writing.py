"""A letter as it is sent: subject, plain text and page, from the same parts."""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parseaddr
from importlib.resources import files
from urllib.parse import urlsplit

import jinja2

from bursar.events.catalogue import Person
from bursar.features.notices.letters import Letter
from bursar.settings import Settings

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FunctionLoader(lambda name: (files("bursar.features.notices") / "templates" / name).read_text()),
    undefined=jinja2.StrictUndefined,
    autoescape=jinja2.select_autoescape(("html",)),  # plain text is not escaped
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEXT, _PAGE = _TEMPLATES.get_template("letter.txt"), _TEMPLATES.get_template("letter.html")


@dataclass(frozen=True, slots=True)
class Written:
    subject: str
    text: str
    html: str


def written(letter: Letter, business: str, to: Person, recipient: str, settings: Settings) -> Written:
    values = {"letter": letter, "business": business, "why": _why(to, business, recipient, settings)}
    subject = " ".join(letter.subject.split())
    return Written(subject, _TEXT.render(values).strip() + "\n", _PAGE.render(values))


def _why(to: Person, business: str, recipient: str, settings: Settings) -> str:
    """Why somebody gets this, and from whom."""
    sender = parseaddr(settings.mail_from)[0] or "Bursar"
    if to == "customer":
        return f"Sent by {sender} for {business}, because {recipient} was given with this payment."
    return f"Sent by {sender} to {recipient}, the address of {business}’s account."


def message_id(event_id: str, settings: Settings) -> str:
    """The same on every attempt, so that a mailbox that gets it twice shows it once."""
    return f"<{event_id}@{urlsplit(settings.public_url).hostname or 'localhost'}>"
