"""A small demo on a test instance, made through the operator API: two businesses to call the service as.

The API shows keys once, so the demo keeps them in a private file of the data directory and shows them at each start.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import msgspec

from bursar.cli.client import NotThere, OperatorClient
from bursar.supervisor.directory import keep

FILE = "demo.json"
IPN_URL = "http://127.0.0.1:9000/ipn"
WEBHOOK_URL = "http://127.0.0.1:9000/webhooks"


class Party(msgspec.Struct, frozen=True):
    """An account of the demo, with the keys it was opened with."""

    name: str
    account_id: str
    merchant_id: int
    secret_key: str
    test_secret_key: str
    public_key: str
    client_key: str


class Demo(msgspec.Struct, frozen=True):
    """`run` makes addresses and idempotency keys of one seeding its own, so that a broken one can be taken up."""

    run: str
    merchant: Party | None = None
    platform: Party | None = None
    connected: tuple[Party, ...] = ()
    webhook: dict[str, Any] = {}


def seed(operator: OperatorClient, data_dir: Path) -> Demo:
    """The demo of this database: as it was kept, finished if it was cut short, or made anew."""
    path = data_dir / FILE
    demo = _kept(path)
    if demo is not None and demo.merchant is not None and _exists(operator, demo.merchant):
        return demo
    if demo is None or demo.merchant is not None:
        demo = Demo(run=secrets.token_hex(3))
        _keep(path, demo)
    demo = _make(operator, demo.run)
    _keep(path, demo)
    return demo


def _make(operator: OperatorClient, run: str) -> Demo:
    def open_account(name: str, kind: str = "merchant", **fields: Any) -> Party:
        label = name.lower().replace(" ", "-")
        body = {"kind": kind, "name": name, "email": f"{label}-{run}@example.com", **fields}
        opened = operator.post("/accounts", body, key=f"demo-{run}-{label}").data
        return msgspec.convert({**opened, "name": name}, Party)

    merchant = open_account("Harbour Books")
    platform = open_account("Market Hall", "platform")
    connected = tuple(open_account(name, platform=platform.account_id) for name in ("Bread Stall", "Flower Stall"))
    webhook = operator.post(
        f"/accounts/{merchant.merchant_id}/webhooks",
        {"url": WEBHOOK_URL, "events": ["*"], "description": "Demo"},
        key=f"demo-{run}-webhook",
    ).data
    return Demo(run, merchant, platform, connected, {name: webhook[name] for name in ("id", "url", "secret")})


def _exists(operator: OperatorClient, party: Party) -> bool:
    """Whether this is still the database that the demo was made in."""
    try:
        operator.get(f"/accounts/{party.account_id}")
    except NotThere:
        return False
    return True


def _kept(path: Path) -> Demo | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Demo)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _keep(path: Path, demo: Demo) -> None:
    keep(path, msgspec.json.format(msgspec.json.encode(demo), indent=2).decode() + "\n")


def read_account(base_url: str, party: Party) -> str:
    return f"curl -sS {base_url}/v2/account -H 'Authorization: Bearer {party.secret_key}'"


def read_connected(base_url: str, platform: Party, account: Party) -> str:
    """As a platform, on an account that is connected to it."""
    return (
        f"curl -sS {base_url}/v2/account -H 'Authorization: Bearer {platform.secret_key}' \\\n"
        f"  -H 'Service-Account: {account.account_id}'"
    )


def signed_write(base_url: str, party: Party) -> str:
    """A signed request that works whenever it is pasted: time and signature are computed on the spot."""
    return "\n".join(
        (
            f"KEY={party.secret_key}",
            "NOW=$(date +%s)",
            """BODY='{"identifier":"order-'$NOW'","amount":49.99,"currency":"GBP","details":"Two books",'""",
            f"""BODY=$BODY'"ipn_url":"{IPN_URL}","success_url":"https://example.com/thanks",'""",
            """BODY=$BODY'"cancel_url":"https://example.com/basket","customer_name":"Ada Lovelace",'""",
            """BODY=$BODY'"customer_email":"ada@example.com"}'""",
            """SIGNATURE=$(printf '%s.%s' "$NOW" "$BODY" | openssl dgst -sha256 -hmac "$KEY" | sed 's/^.* //')""",
            f'curl -sS {base_url}/v2/hosted-payments -d "$BODY" \\',
            """  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\""",
            """  -H "X-Service-Timestamp: $NOW" -H "X-Service-Signature: $SIGNATURE" \\""",
            """  -H "Idempotency-Key: try-$NOW\"""",
        )
    )
