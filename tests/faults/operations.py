"""Every money operation, as a client or customer does it, in the shape that the crash points are tried on.

`prepare` is done on a healthy instance. `act` is what a process dies during; it repeats what it is not sure of, as a
careful client would. `ended` says whether everything that must come of it has come, exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.faults.shop import PATIENCE_S, Account
from tests.faults.world import AT_ONCE, DECLINED, OK, PROOF, World

Facts = dict[str, Any]


@dataclass(frozen=True)
class Operation:
    name: str
    prepare: Callable[[World, Account], Awaitable[Facts]]
    act: Callable[[World, Account, Facts], Awaitable[None]]
    ended: str  # a query for one true value; $1 is facts["id"]


async def _nothing(world: World, who: Account) -> Facts:
    return {"id": world.shop.new_key("op")}


async def _payment(world: World, who: Account) -> Facts:
    made = await world.create(who)
    return {"id": made["id"], "url": made["checkout_url"]}


async def _open_checkout(world: World, who: Account) -> Facts:
    made = await world.create(who)
    return {"id": made["id"], "url": made["checkout_url"], "reference": await world.started(made)}


async def _paid(world: World, who: Account) -> Facts:
    made = await world.paid(who, AT_ONCE)
    await world.quiet()
    return {"id": made["id"]}


# Creating ---------------------------------------------------------------------------------------------------------


async def _create(world: World, who: Account, facts: Facts) -> None:
    await world.create(who, facts["id"])


async def _create_link(world: World, who: Account, facts: Facts) -> None:
    body = {"amount": 25, "currency": "GBP", "details": facts["id"]}
    reply = await world.shop.write(who, "POST", "/v2/payment-links", body, key=facts["id"], op="link")
    assert reply.status == 201, reply


async def _link(world: World, who: Account) -> Facts:
    made = await world.create_link(who)
    return {"id": made["id"], "url": made["checkout_url"]}


async def _start(world: World, who: Account, facts: Facts) -> None:
    """Pressed again while our page says that the processor cannot be reached."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            reply = await world.start(facts["url"])
            assert reply.status == 303, reply
            if reply.headers["location"].startswith(world.instance.simulator_url):
                return
            await asyncio.sleep(0.1)


async def _pay_link(world: World, who: Account, facts: Facts) -> None:
    await _start(world, who, facts)
    rows = await world.instance.fetch("SELECT processor_reference AS r FROM payment WHERE link_id = $1", facts["id"])
    assert [row["r"] is not None for row in rows] == [True], rows
    assert await world.pay(rows[0]["r"]) == "succeeded"


# Outcomes ---------------------------------------------------------------------------------------------------------


async def _succeed(world: World, who: Account, facts: Facts) -> None:
    assert await world.pay(facts["reference"], OK) == "succeeded"


async def _decline(world: World, who: Account, facts: Facts) -> None:
    await world.pay(facts["reference"], DECLINED)


async def _come_back(world: World, who: Account, facts: Facts) -> None:
    """The customer pays and returns to our page, which asks; the callback says the same."""
    assert await world.pay(facts["reference"], OK) == "succeeded"
    await world.shop.page("GET", facts["url"] + "/return", op="return")


async def _played(world: World, who: Account, facts: Facts) -> None:
    path = f"/simulator/checkouts/{facts['reference']}/pay"
    reply = await world.shop.ops("POST", path, {"card": OK}, key=world.shop.new_key("play"), op="play")
    assert reply.status == 200, reply


async def _unpaid(world: World, who: Account) -> Facts:
    made = await world.create(who)
    return {"id": made["id"], "reference": made["payment_reference"]}


async def _broken_promise(world: World, who: Account) -> Facts:
    """Cancelled, says the processor, and will capture all the same."""
    facts = await _open_checkout(world, who)
    await world.fault("cancel", "out_of_order")
    reply = await world.cancel(who, facts["id"])
    assert reply.status == 200, reply
    return facts


# Refunds and closings ---------------------------------------------------------------------------------------------


async def _refund_all(world: World, who: Account, facts: Facts) -> None:
    reply = await world.refund(who, facts["id"])
    assert reply.status == 200, reply


async def _refund_part(world: World, who: Account, facts: Facts) -> None:
    reply = await world.refund(who, facts["id"], 10)
    assert reply.status == 200, reply


async def _refund_unheard(world: World, who: Account) -> Facts:
    facts = await _paid(world, who)
    await world.fault("refund", "timeout")
    return facts


async def _refund_refused(world: World, who: Account) -> Facts:
    facts = await _paid(world, who)
    await world.fault("refund", "error")
    return facts


async def _refund_in_vain(world: World, who: Account, facts: Facts) -> None:
    """Refused once; a retry after a lost answer is a new refund, under the same key, and may succeed."""
    reply = await world.refund(who, facts["id"], 10)
    assert reply.status in (200, 422), reply


async def _cancel(world: World, who: Account, facts: Facts) -> None:
    """Asked for again, as a new request, when the processor was heard not to have done it: the payment goes on then."""
    async with asyncio.timeout(PATIENCE_S):
        while (reply := await world.cancel(who, facts["id"])).code == "cancel_failed":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert reply.status in (200, 409, 422), reply


async def _paid_unheard(world: World, who: Account) -> Facts:
    """Captured at the processor, whose callback is held back."""
    facts = await _open_checkout(world, who)
    await world.fault("payment", "out_of_order")
    assert await world.pay(facts["reference"]) == "succeeded"
    return facts


async def _expiring(world: World, who: Account) -> Facts:
    made = await world.create(who, expires_in=1800)
    await world.started(made)
    return {"id": made["id"]}


async def _time_passes(world: World, who: Account, facts: Facts) -> None:
    await world.advance(1801)


async def _unsettled(world: World, who: Account) -> Facts:
    """Nothing else is left to fall due meanwhile."""
    await world.advance(8 * 86_400)
    made = await world.paid(who, OK)
    await world.quiet()
    return {"id": made["id"]}


async def _days_pass(world: World, who: Account, facts: Facts) -> None:
    await world.advance(8 * 86_400)


# Reserves and adjustments -----------------------------------------------------------------------------------------


async def _hold(world: World, who: Account, facts: Facts) -> None:
    body = {"reason": "Show us the invoice"}
    path = f"/transactions/{facts['id']}/proof-requests"
    reply = await world.shop.ops("POST", path, body, key=world.shop.new_key("proof"), op="proof")
    assert reply.status == 201, reply


async def _held(world: World, who: Account) -> Facts:
    made = await world.paid(who, PROOF)
    await world.quiet()
    path = f"/v2/transactions/{made['id']}/proof"
    reply = await world.shop.write(
        who, "POST", path, {"courier_company": "Royal Mail"}, key=world.shop.new_key("send"), op="submit"
    )
    assert reply.status == 200, reply
    return {"id": made["id"]}


async def _release(world: World, who: Account, facts: Facts) -> None:
    path = f"/transactions/{facts['id']}/proof/approve"
    reply = await world.shop.ops("POST", path, {}, key=world.shop.new_key("approve"), op="approve")
    assert reply.status == 200, reply


async def _adjust(world: World, who: Account, facts: Facts) -> None:
    body = {"currency": "GBP", "amount": 5, "note": facts["id"]}
    path = f"/accounts/{who.merchant_id}/wallet-adjustments"
    reply = await world.shop.ops("POST", path, body, key=facts["id"], op="adjust")
    assert reply.status == 201, reply


PAID = "SELECT status = 'succeeded' FROM payment WHERE id = $1"
CANCELLED = "SELECT status = 'cancelled' FROM payment WHERE id = $1"

OPERATIONS = (
    Operation("create payment", _nothing, _create, "SELECT count(*) = 1 FROM payment WHERE identifier = $1"),
    Operation("create link", _nothing, _create_link, "SELECT count(*) = 1 FROM payment_link WHERE details = $1"),
    Operation(
        "start checkout", _payment, _start, "SELECT processor_reference IS NOT NULL FROM payment WHERE id = $1"
    ),
    Operation("pay link", _link, _pay_link, "SELECT status = 'paid' AND payments = 1 FROM payment_link WHERE id = $1"),
    Operation("outcome: success", _open_checkout, _succeed, PAID),
    Operation(
        "outcome: failure", _open_checkout, _decline,
        "SELECT status = 'pending' AND attempts = 1 FROM payment WHERE id = $1",
    ),
    Operation("customer returns", _open_checkout, _come_back, PAID),
    Operation("operator plays customer", _unpaid, _played, PAID),
    Operation(
        "late capture", _broken_promise, _succeed,
        "SELECT status = 'refunded' FROM review_case WHERE kind = 'late_capture' AND payment_id = $1",
    ),
    Operation(
        "refund in full", _paid, _refund_all,
        "SELECT status = 'refunded' AND refunding_minor = 0 FROM payment WHERE id = $1",
    ),
    Operation(
        "refund in part", _paid, _refund_part,
        "SELECT refunded_minor = 1000 AND refunding_minor = 0 FROM payment WHERE id = $1",
    ),
    Operation(
        "refund, unanswered", _refund_unheard, _refund_part,
        "SELECT refunded_minor = 1000 AND refunding_minor = 0 FROM payment WHERE id = $1",
    ),
    Operation(
        "refund, refused", _refund_refused, _refund_in_vain,
        "SELECT refunded_minor IN (0, 1000) AND refunding_minor = 0 FROM payment WHERE id = $1",
    ),
    Operation("cancel", _open_checkout, _cancel, CANCELLED),
    Operation("cancel of a paid one", _paid_unheard, _cancel, PAID),
    Operation("expiry", _expiring, _time_passes, CANCELLED),
    Operation(
        "settlement and seal", _unsettled, _days_pass,
        "SELECT count(*) = 0 FROM unsettled WHERE source = 'transaction:' || $1::bigint",
    ),
    Operation("reserve held", _paid, _hold, "SELECT reserve_minor > 0 FROM payment WHERE id = $1"),
    Operation(
        "reserve released", _held, _release,
        "SELECT reserve_minor = 0 AND proof_status = 'approved' FROM payment WHERE id = $1",
    ),
    Operation("adjustment", _nothing, _adjust, "SELECT count(*) = 1 FROM journal WHERE note = $1"),
)  # fmt: skip
