"""`bursar listen`, `bursar trigger` and `bursar events`: the tools of those who write a receiver."""

from __future__ import annotations

import time
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from bursar.cli import options, output
from bursar.cli.account_client import AccountClient
from bursar.cli.client import ClientError
from bursar.cli.options import operator

app = typer.Typer(help="What happened, and who was told.", no_args_is_help=True)

POLL_S = 0.5
SECRET_KEY = "SERVICE_SECRET_KEY"  # noqa: S105 - the name of a variable

Key = Annotated[
    str, typer.Option("--key", envvar=SECRET_KEY, help="The account's secret key (sk_live_…).", show_default=False)
]


@app.command("list")
def list_events(
    key: Key,
    type_: Annotated[str | None, typer.Option("--type", help="Only this type.")] = None,
    page: options.PageNumber = 1,
    per_page: options.PageSize = 25,
    url: options.Url = None,
    as_json: options.Json = False,
) -> None:
    """List the events of an account, newest first."""
    reply = _account(url, key).get("/events", type=type_, page=page, per_page=per_page)
    if as_json:
        output.json(reply.raw)
    else:
        output.page(reply, ("created_at", "type", "id", "account_id"), "Nothing has happened yet.")


@app.command()
def resend(
    event_id: Annotated[str, typer.Argument(help="evt_…")],
    key: Key,
    url: options.Url = None,
    as_json: options.Json = False,
) -> None:
    """Send an event again to every endpoint that wants it."""
    reply = _account(url, key).post(f"/events{options.path(event_id)}/resend")
    if as_json:
        output.json(reply.raw)
        return
    count = len(reply.data["resent"]["delivery_ids"])
    output.say(f"On its way to {count} endpoint{'' if count == 1 else 's'}.")


@app.command()
def listen(
    forward_to: Annotated[str, typer.Option("--forward-to", help="Address on your machine, such as localhost:3000/x.")],
    key: Key,
    forward_ipn_to: Annotated[str | None, typer.Option(help="Another address for IPNs; default the same.")] = None,
    secret: Annotated[str | None, typer.Option(help="Sign with this whsec_…; default a new one, shown.")] = None,
    account: Annotated[str | None, typer.Option(help="Only this connected account.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when there is nothing more, for scripts.")] = False,
    after: Annotated[str | None, typer.Option(help="Begin after this event id instead of now.")] = None,
    url: options.Url = None,
) -> None:
    """Forward an account's events and IPNs to your machine as they happen, with the bytes and headers they have."""
    from bursar.cli.forwarding import Follower, Forwarder
    from bursar.core.ids import new_webhook_secret

    signed_with = secret or new_webhook_secret()
    forwarder = Forwarder(forward_to, forward_ipn_to or forward_to, signed_with, key)
    follower = Follower(lambda since: _tail(url, key, account, since), after or "")
    output.say(f"Forwarding to {forwarder.webhooks.geturl()}; webhooks are signed with {signed_with}")
    try:
        while True:
            entries = follower.poll()
            for entry in entries:
                output.say(forwarder.forward(entry))
            if once and not entries:
                return
            time.sleep(0 if once else POLL_S)
    except KeyboardInterrupt:
        output.say("Stopped.")


@app.command()
def trigger(
    event: Annotated[str, typer.Argument(help="An event type, such as transaction.succeeded.")],
    merchant: Annotated[str, typer.Option("--account", help="Merchant number or account id it happens to.")],
    ipn_url: Annotated[str | None, typer.Option(help="Where the checkout's IPNs go; default nowhere.")] = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
) -> None:
    """Make an event happen on a test instance, by doing what makes it happen."""
    from bursar.cli.triggering import NOWHERE, Scene, perform
    from bursar.events.catalogue import CATALOGUE

    if event not in CATALOGUE:
        raise ClientError(f"there is no event {event}; the documentation lists them all")
    ops = operator(url, data_dir)
    account = ops.get(options.path("accounts", merchant)).data
    issued = ops.post(options.path("accounts", merchant, "keys"), {"kind": "secret"}).data
    try:
        scene = Scene(ops, AccountClient(ops.url, issued["key"]), account, ipn_url or NOWHERE)
        for line in perform(event, scene):
            output.say(line)
    finally:
        ops.delete(options.path("accounts", merchant, "keys", issued["id"]))


def _account(url: str | None, key: str) -> AccountClient:
    from bursar.settings import load

    return AccountClient(url or load().public_url, key)


def _tail(url: str | None, key: str, account: str | None, after: str) -> Any:
    query = {"after": after} | ({"account_id": account} if account else {})
    return _account(url, key).get(f"/events-tail?{urlencode(query)}").data["tail"]
