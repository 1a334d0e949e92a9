"""`bursar accounts`: open, find, change."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bursar.cli import options, output
from bursar.cli.options import operator

app = typer.Typer(help="Accounts of merchants and platforms.", no_args_is_help=True)

COLUMNS = ("merchant_id", "kind", "business_company_name", "email", "status", "kyc_status", "platform", "account_id")


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Name of the business.")],
    email: Annotated[str, typer.Option(help="Its e-mail address.")],
    kind: Annotated[str, typer.Option(help="merchant or platform.")] = "merchant",
    country_code: Annotated[str | None, typer.Option(help="Two letters; default GB.")] = None,
    currency: Annotated[str | None, typer.Option(help="Three letters; default GBP.")] = None,
    status: Annotated[str | None, typer.Option(help="pending, active, review or banned.")] = None,
    kyc_status: Annotated[str | None, typer.Option(help="pending, verified or rejected.")] = None,
    platform: Annotated[str | None, typer.Option(help="The platform it is connected to.")] = None,
    fee_payer: Annotated[str | None, typer.Option(help="connected_account or platform.")] = None,
    partner_enabled: Annotated[bool | None, typer.Option(help="Lets a platform have partners.")] = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Open an account. Its keys are shown this once."""
    body = {
        "kind": kind,
        "name": name,
        "email": email,
        "country_code": country_code,
        "currency": currency,
        "status": status,
        "kyc_status": kyc_status,
        "platform": platform,
        "fee_payer": fee_payer,
        "partner_enabled": partner_enabled,
    }
    reply = operator(url, data_dir).post("/accounts", _given(body))
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)
        output.say("The keys are shown this once; keep them now.")


@app.command("list")
def list_accounts(
    q: Annotated[str | None, typer.Option("--search", "-q", help="Part of a name or e-mail address.")] = None,
    kind: Annotated[str | None, typer.Option(help="merchant or platform.")] = None,
    status: Annotated[str | None, typer.Option(help="pending, active, review or banned.")] = None,
    platform: Annotated[int | None, typer.Option(help="Merchant number of the platform.")] = None,
    page: options.PageNumber = 1,
    per_page: options.PageSize = 25,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """List accounts, newest first."""
    reply = operator(url, data_dir).get(
        "/accounts", q=q, kind=kind, status=status, platform=platform, page=page, per_page=per_page
    )
    if as_json:
        output.json(reply.raw)
    else:
        output.page(reply, COLUMNS, "No accounts.")


@app.command()
def show(
    merchant: options.Merchant,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Show one account."""
    reply = operator(url, data_dir).get(options.path("accounts", merchant))
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)


@app.command()
def update(
    merchant: options.Merchant,
    status: Annotated[str | None, typer.Option(help="pending, active, review or banned.")] = None,
    kyc_status: Annotated[str | None, typer.Option(help="pending, verified or rejected.")] = None,
    connect_status: Annotated[str | None, typer.Option(help="active, paused or review.")] = None,
    connect_enabled: Annotated[bool | None, typer.Option(help="Lets a platform act on its accounts.")] = None,
    payments_paused: Annotated[bool | None, typer.Option(help="Stops payments.")] = None,
    payouts_paused: Annotated[bool | None, typer.Option(help="Stops money from leaving.")] = None,
    partner_enabled: Annotated[bool | None, typer.Option(help="Lets a platform have partners.")] = None,
    capability: Annotated[
        list[str] | None, typer.Option(help="name=state, such as payouts=active; may repeat.")
    ] = None,
    payout_hard_cap: Annotated[list[str] | None, typer.Option(help="name=amount; may repeat.")] = None,
    price: Annotated[list[str] | None, typer.Option(help="name=value; may repeat.")] = None,
    url: options.Url = None,
    data_dir: options.DataDir = None,
    as_json: options.Json = False,
) -> None:
    """Change what staff may change of an account."""
    body = {
        "status": status,
        "kyc_status": kyc_status,
        "connect_status": connect_status,
        "connect_enabled": connect_enabled,
        "payments_paused": payments_paused,
        "payouts_paused": payouts_paused,
        "partner_enabled": partner_enabled,
        "capabilities": _pairs(capability),
        "payout_hard_caps": _amounts(payout_hard_cap),
        "merchant_pricing": _amounts(price),
    }
    changes = _given(body)
    if not changes:
        raise typer.BadParameter("nothing to change; name at least one option")
    reply = operator(url, data_dir).patch(options.path("accounts", merchant), changes)
    if as_json:
        output.json(reply.raw)
    else:
        output.record(reply.data)


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _pairs(texts: list[str] | None) -> dict[str, str] | None:
    if not texts:
        return None
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r} must be name=value")
        pairs[name] = value
    return pairs


def _amounts(texts: list[str] | None) -> dict[str, Any] | None:
    """Values as JSON numbers, to the last digit."""
    from decimal import Decimal, InvalidOperation

    import msgspec

    pairs = _pairs(texts)
    if pairs is None:
        return None
    try:
        numbers = {name: Decimal(value) for name, value in pairs.items()}
    except InvalidOperation:
        raise typer.BadParameter("values must be numbers, such as 1.5") from None
    return {name: msgspec.Raw(f"{number:f}".encode()) for name, number in numbers.items()}
