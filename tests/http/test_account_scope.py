"""Every account-scope error, each on several routes of several families and kinds, in one table."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.http.sending import code, write
from tests.support.service import Party, Service

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCOPED = ("legacy", "dispute", "subscriptions", "commerce")  # management acts on no account but the platform's own
ANY = tuple((family, path) for family in SCOPED for path in ("/gates/open", "/gates/write"))
WRITES = tuple((family, path) for family in SCOPED for path in ("/gates/write", "/withdrawals"))
PAYMENTS = tuple((family, "/gates/payments") for family in SCOPED)
TRANSFERS = tuple((family, path) for family in SCOPED for path in ("/gates/transfers", "/withdrawals"))


@dataclass(frozen=True)
class Case:
    status: int
    code: str
    routes: tuple[tuple[str, str], ...]
    caller: str = "platform"  # or: shop, stranger (another platform), single (a merchant), cut_off (without connect)
    names: str = "shop"
    state: dict[str, object] = field(default_factory=dict)  # of the shop
    keys_of: str = ""  # whose client key is sent along


CASES = (
    Case(401, "account_key_mismatch", ANY, keys_of="stranger"),
    Case(401, "account_key_mismatch", ANY, caller="shop", keys_of="platform"),
    Case(403, "account_not_allowed", ANY, caller="single"),
    Case(403, "connect_not_enabled", ANY, caller="cut_off"),
    Case(404, "account_not_found", ANY, caller="stranger"),
    Case(404, "account_not_found", ANY, names="nobody"),
    Case(422, "invalid_account_id", ANY, names="nonsense"),
    Case(403, "account_banned", WRITES + PAYMENTS, state={"status": "banned"}),
    Case(403, "account_inactive", PAYMENTS, state={"status": "pending"}),
    Case(403, "payments_paused", PAYMENTS, state={"payments_paused": True}),
    Case(403, "payments_paused", PAYMENTS, state={"connect_status": "paused"}),
    Case(403, "kyc_required", TRANSFERS, state={"status": "pending"}),
    Case(403, "kyc_required", TRANSFERS, state={"kyc_status": "pending"}),
    Case(403, "kyc_required", TRANSFERS, caller="shop", state={"kyc_status": "rejected"}),
    Case(403, "payouts_paused", TRANSFERS, state={"payouts_paused": True}),
    Case(403, "payouts_paused", TRANSFERS, state={"connect_status": "paused"}),
    Case(403, "payouts_paused", TRANSFERS, caller="shop", state={"connect_status": "review"}),
    Case(403, "payouts_paused", TRANSFERS, state={"status": "review"}),
)

CODES = {
    "account_key_mismatch", "account_not_allowed", "account_inactive", "connect_not_enabled", "account_banned",
    "payments_paused", "payouts_paused", "kyc_required", "account_not_found", "invalid_account_id",
}  # fmt: skip


async def _refused(bursar: Service, case: Case, parties: dict[str, Party], family: str, path: str) -> tuple[int, str]:
    named = {"nobody": "acc0000000000000000_999999", "nonsense": "shop"}.get(case.names) or parties["shop"].account_id
    body = {"reference": "w-1"} if path == "/withdrawals" else {"text": "a note"}
    headers = {"X-Service-Client-Key": parties[case.keys_of].client_key} if case.keys_of else {}
    account = None if case.caller == "shop" else named
    reply = await write(bursar, family, parties[case.caller], path, body, account=account, headers=headers)
    return reply.status_code, str(code(reply))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.caller}-{case.names}-{case.state or ''}")
async def test_on_every_route_that_it_concerns(
    bursar: Service, platform: Party, shop: Party, merchant: Party, case: Case
) -> None:
    parties = {"platform": platform, "shop": shop, "single": merchant}
    parties["stranger"] = await bursar.open_account("platform")
    parties["cut_off"] = await bursar.open_account("platform")
    await bursar.ops("PATCH", f"/accounts/{parties['cut_off'].merchant_id}", {"connect_enabled": False})
    if case.state:
        changed = await bursar.ops("PATCH", f"/accounts/{shop.merchant_id}", case.state)
        assert changed.status_code == 200, changed.text
    found = {route: await _refused(bursar, case, parties, *route) for route in case.routes}
    assert found == dict.fromkeys(case.routes, (case.status, case.code))


async def test_what_is_refused_there_is_otherwise_allowed(bursar: Service, platform: Party, shop: Party) -> None:
    """So it is the account's state that refuses, and nothing else about these routes."""
    case, parties = Case(201, "None", TRANSFERS + PAYMENTS), {"platform": platform, "shop": shop}
    found = {route: await _refused(bursar, case, parties, *route) for route in case.routes}
    assert found == dict.fromkeys(case.routes, (201, "None"))


async def test_the_table_is_complete() -> None:
    assert {case.code for case in CASES} == CODES
    for case in CASES:
        assert len({family for family, _ in case.routes}) > 1
