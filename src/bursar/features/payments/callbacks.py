"""What processors call to tell. The worker takes what has come, asks the processors about those payments, and writes
all of it down in one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import structlog

from bursar.db.pool import persist
from bursar.db.sweep import Desk, Sweep
from bursar.features.payments import outcomes
from bursar.features.payments.acting import acting_on
from bursar.features.payments.processor import processors_of
from bursar.processors import inbox
from bursar.processors.inbox import Received
from bursar.processors.protocol import Callback, CardProcessor, PaymentState, Rejected, Unknown

log = structlog.get_logger()

LANES = 3  # while the outcomes of one batch are written, the processor is asked about others
ROUNDS = 20  # batches of a lane before other work gets its turn

Apply = Callable[[Desk, Callback, Received], Awaitable[None]]
Processors = Mapping[str, CardProcessor]

# Callbacks about other things than payments (payout, …), by the first word of their kind: `processors.inbox.sweep`
# says what such a function must do.
OTHERS: dict[str, Apply] = {}


class Message(NamedTuple):
    """A callback, and what it says."""

    received: Received
    callback: Callback


@dataclass(frozen=True, slots=True)
class Heard:
    """A callback about a payment, and the state that the processor gave when asked."""

    received: Received
    callback: Callback
    state: PaymentState


async def run(desk: Desk, now: datetime) -> int:
    """How many were dealt with. While a processor does not answer, that is none, and other sweeps get their turn."""
    taken = await inbox.claim(desk.db, now)
    if not taken:
        return 0
    with ExitStack() as kept:
        processors = {
            name: kept.enter_context(processor.in_touch()) for name, processor in processors_of(desk.settings).items()
        }
        turn = asyncio.Lock()
        lanes = [_lane(desk, processors, turn, taken, now)]
        if len(taken) == inbox.BATCH:  # there may be more
            lanes += [_lane(desk, processors, turn, None, now) for _ in range(LANES - 1)]
        ended = await asyncio.gather(*lanes, return_exceptions=True)  # one that fails leaves the others to finish
    for end in ended:
        if isinstance(end, BaseException):
            raise end
    return sum(end for end in ended if isinstance(end, int))


async def _lane(
    desk: Desk, processors: Processors, turn: asyncio.Lock, taken: list[Received] | None, now: datetime
) -> int:
    """One batch after another, beginning with `taken`, while there are whole ones and something comes of them.

    Lanes claim in turn: two at the same time would reach for the same callbacks, and one would get nothing.
    """
    total = 0
    for _ in range(ROUNDS):
        if taken is None:
            async with turn:
                taken = await inbox.claim(desk.db, now)
        done = await _apply(desk, processors, taken, now)
        total += done
        if done == 0 or len(taken) < inbox.BATCH:
            break
        taken = None
    return total


async def _apply(desk: Desk, processors: Processors, taken: Sequence[Received], now: datetime) -> int:
    groups, later = _grouped(processors, taken)
    answers = await asyncio.gather(*(_hear(desk, processors, group) for group in groups))
    heard: list[Heard] = []
    for group, answer in zip(groups, answers, strict=True):
        if answer is None:
            later += [one.received for one in group]
        else:
            heard += answer
    if heard:
        await _settle(desk, heard, now)
        desk.wake()
    if later:
        await _try_again(desk, later, now)
    return len(taken) - len(later)


def _grouped(processors: Processors, taken: Sequence[Received]) -> tuple[list[list[Message]], list[Received]]:
    """Callbacks of one payment together, since it is asked about once; and those that cannot be read."""
    payments: dict[tuple[str, str], list[Message]] = {}
    others: list[list[Message]] = []
    unread: list[Received] = []
    for received in taken:
        try:
            callback = processors[received.provider].read_callback(received.raw)
        except Exception:
            log.exception("callback.not_applied", provider=received.provider, event_id=received.event_id)
            unread.append(received)
            continue
        told = Message(received, callback)
        if callback.kind.startswith("payment."):
            payments.setdefault((received.provider, callback.reference), []).append(told)
        else:
            others.append([told])
    return [*payments.values(), *others], unread


async def _hear(desk: Desk, processors: Processors, told: Sequence[Message]) -> list[Heard] | None:
    """Asks about the payment of these; anything else is done with here. None: all of them again later."""
    received, callback = told[0]
    about = callback.kind.partition(".")[0]
    try:
        if about == "payment":
            state = await processors[received.provider].confirm(callback.reference)
            return [Heard(*one, state) for one in told]
        if about == "refund":  # a refund is finished by who ordered it
            async with desk.db.transaction("callbacks") as db:
                await inbox.done(db, received)
        else:
            await OTHERS[about](desk, callback, received)
    except Rejected as error:
        async with desk.db.transaction() as db:
            await inbox.finish(db, [(one.received, error.code) for one in told])
    except Unknown:
        return None
    except Exception:
        log.exception("callback.not_applied", provider=received.provider, event_id=received.event_id)
        return None
    return []


async def _try_again(desk: Desk, taken: Sequence[Received], now: datetime) -> None:
    """Later; after a day of that, a person must look. The payment itself is still asked about at its own times."""
    async with desk.db.transaction() as db:
        for received in taken:
            if received.attempts >= inbox.TRIES:
                await inbox.quarantine(db, received, "not_applied")
            else:
                await inbox.later(db, received, now)


async def _settle(desk: Desk, heard: Sequence[Heard], now: datetime) -> None:
    """All in one transaction; if that fails, one by one, so that a bad one fails alone."""
    try:
        await persist(lambda: _write(desk, heard))
    except Exception:
        if len(heard) == 1:
            log.exception("callback.not_applied", event_id=heard[0].received.event_id)
            await _try_again(desk, [heard[0].received], now)
            return
        for one in heard:
            await _settle(desk, [one], now)


async def _write(desk: Desk, heard: Sequence[Heard]) -> None:
    async with desk.db.transaction("callbacks") as db:
        account_ids = [one.state.account_id for one in heard]
        acts = await acting_on(db, desk.settings, account_ids)
        results = await outcomes.apply(acts, [one.state for one in heard])
        problems = []
        for one, result in zip(heard, results, strict=True):
            problem = result.mismatch
            if problem is None and result.payment is not None:
                row = result.payment
                problem = inbox.mismatch(
                    one.callback,
                    account_id=row["account_id"],
                    our_reference=row["payment_reference"],
                    reference=row["processor_reference"],
                    amount_minor=row["amount_minor"],
                    currency=row["currency"],
                )
            problems.append(problem)
        await inbox.finish(db, [(one.received, problem) for one, problem in zip(heard, problems, strict=True)])
        await acts.write_events()


SWEEP = Sweep("processor_callbacks", run, inbox.next_due)
