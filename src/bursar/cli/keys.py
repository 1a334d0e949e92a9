"""`bursar keys`: issue and revoke."""

from __future__ import annotations

from typing import Annotated

import typer

from bursar.cli import options, output
from bursar.cli.options import operator

app = typer.Typer(help="API keys of an account.", no_args_is_help=True)


@app.command()
def create(
    merchant: options.Merchant,
    kind: Annotated[str, typer.Option(help="secret, test or restricted.")] = "secret",
    scope: Annotated[
        list[str] | None, typer.Option(help="For a restricted key: area:read or area:write; may repeat.")
    ] = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Issue a key. It is shown this once."""
    body = {"kind": kind, "scopes": scope or []}
    reply = operator(url, data_dir).post(options.path("accounts", merchant, "keys"), body)
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)
        output.say("The key is shown this once; keep it now.")


@app.command()
def revoke(
    merchant: options.Merchant,
    key_id: Annotated[int, typer.Argument(help="Number of the key.")],
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Revoke a key; it stops working everywhere within a second."""
    reply = operator(url, data_dir).delete(options.path("accounts", merchant, "keys", key_id))
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)
