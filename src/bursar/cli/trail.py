"""`bursar audit log`: what operators did."""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import options, output
from bursar.cli.options import operator

COLUMNS = ("id", "at", "actor", "action", "target", "status", "after", "request_id")


def added_to(group: typer.Typer | None) -> typer.Typer:
    """The `audit` group with this command in it."""
    audit = group or typer.Typer(no_args_is_help=True)
    audit.info.help = "The ledger's proof and the operators' trail."

    @audit.callback()
    def _group() -> None:
        """With one command alone, its name would otherwise not be needed."""

    audit.command("log")(log)
    return audit


def log(
    merchant: Annotated[int | None, typer.Option(help="Only what was done to this account, by number.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action.")] = None,
    page: options.PageNumber = 1,
    per_page: options.PageSize = 25,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Show what operators did, newest first."""
    reply = operator(url, data_dir).get("/audit/log", merchant=merchant, action=action, page=page, per_page=per_page)
    if as_json:
        output.json(reply.raw)
    else:
        output.page(reply, COLUMNS, "Nothing is on record.")
