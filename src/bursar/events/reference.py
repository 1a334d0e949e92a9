"""The documentation's table of event types, written from the catalogue: `python -m bursar.events.reference`."""

from __future__ import annotations

import sys
from pathlib import Path

from bursar.events.catalogue import CATALOGUE, MAIL_TO

BEGIN, END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"
GUIDE = Path(__file__).parents[3] / "docs" / "events.md"

_AUDIENCE = {"both": "account, platform", "platform": "platform", "account": "account", "none": "the endpoint tested"}


def table() -> str:
    lines = ["| Type | Emitted when | `data` holds | Sent to | E-mail to | |", "| --- | --- | --- | --- | --- | --- |"]
    for event in CATALOGUE.values():
        note = "additive" if event.additive else ""
        sent_to, mail_to = _AUDIENCE[event.audience], MAIL_TO.get(event.name, "")
        lines.append(f"| `{event.name}` | {event.when} | `{event.resource}` | {sent_to} | {mail_to} | {note} |")
    return "\n".join(lines)


def rewritten(text: str) -> str:
    """The guide with its table as the catalogue has it now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    GUIDE.write_text(rewritten(GUIDE.read_text()))
    sys.stdout.write(f"{GUIDE}\n")
