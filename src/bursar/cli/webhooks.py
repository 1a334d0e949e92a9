"""`bursar webhooks`: register an endpoint for an account."""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import options, output
from bursar.cli.options import operator

app = typer.Typer(help="Webhook endpoints of an account.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """With one command alone, its name would otherwise not be needed."""


@app.command()
def create(
    merchant: options.Merchant,
    endpoint: Annotated[str, typer.Argument(help="Address that events are sent to.")],
    event: Annotated[list[str] | None, typer.Option(help="Event type, family.* or *; may repeat; default *.")] = None,
    description: Annotated[str, typer.Option(help="A note for people.")] = "",
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Register a webhook. Its signing secret is shown this once."""
    body = {"url": endpoint, "events": event or ["*"], "description": description}
    reply = operator(url, data_dir).post(options.path("accounts", merchant, "webhooks"), body)
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)
        output.say("The secret is shown this once; keep it now.")
