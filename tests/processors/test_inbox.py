"""The inbox: kept once, answered at once, applied by whoever holds the lease, and doubts are put aside."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import asyncpg
import msgspec
import pytest

from bursar.core.crypto import Opener, Sealer, Vault
from bursar.db.clock import instance_now
from bursar.db.sweep import Desk
from bursar.processors import inbox
from bursar.processors.inbox import Received
from bursar.processors.protocol import Callback, Unknown
from bursar.processors.signing import LinkKeys, sign_callback
from bursar.processors.simulator_sweep import SIMULATOR
from tests.processors.running import ACCOUNT_ID, Rig


def desk_of(rig: Rig) -> Desk:
    settings = rig.settings
    return Desk(
        db=rig.db,
        settings=settings,
        vault=Vault(settings.key_pepper, Sealer(settings.seal_public_key)),
        opener=Opener(settings.seal_private_key),
        wake=lambda: None,
    )


@pytest.fixture
async def callback(rig: Rig) -> Callback:
    """One success, in the inbox."""
    await rig.paid()
    await rig.hear()
    return rig.heard[0]


async def post(rig: Rig, callback: Callback, raw: bytes | None = None) -> int:
    raw = msgspec.json.encode(callback) if raw is None else raw
    keys = LinkKeys.of(rig.settings.simulator_secret)
    return await inbox.receive(rig.keep, rig.processor, sign_callback(keys.callbacks, callback.event_id, raw), raw)


async def states(rig: Rig) -> list[tuple[str, str | None]]:
    return [(row["state"], row["reason"]) for row in await rig.db.fetch("SELECT * FROM processor_inbox")]


class TestReceiving:
    async def test_the_same_callback_is_kept_once(self, rig: Rig, callback: Callback) -> None:
        answers = await asyncio.gather(*(post(rig, callback) for _ in range(6)))
        assert set(answers) == {200}
        row = await rig.db.fetchrow("SELECT * FROM processor_inbox")
        assert row is not None
        assert (row["account_id"], row["event_id"], row["state"]) == (ACCOUNT_ID, callback.event_id, "new")
        assert rig.processor.read_callback(row["raw"]) == callback
        assert await rig.db.fetchval("SELECT count(*) FROM processor_inbox") == 1

    async def test_those_that_come_together_are_kept_and_a_bad_one_fails_alone(
        self, rig: Rig, callback: Callback
    ) -> None:
        names = ["sev_one", "sev_\0", "sev_two", callback.event_id]
        answers = await asyncio.gather(
            *(post(rig, replace(callback, event_id=name)) for name in names), return_exceptions=True
        )
        assert [answers[0], *answers[2:]] == [200, 200, 200]
        assert isinstance(answers[1], asyncpg.PostgresError)
        kept = {row["event_id"] for row in await rig.db.fetch("SELECT event_id FROM processor_inbox")}
        assert kept == {"sev_one", "sev_two", callback.event_id}

    async def test_nothing_unsigned_is_kept(self, rig: Rig, callback: Callback) -> None:
        forged = replace(callback, event_id="sev_forged")
        assert await inbox.receive(rig.keep, rig.processor, {}, msgspec.json.encode(forged)) == 401
        assert await rig.db.fetchval("SELECT count(*) FROM processor_inbox") == 1

    async def test_what_makes_no_sense_is_refused(self, rig: Rig, callback: Callback) -> None:
        assert await post(rig, callback, b'{"event_id":1}') == 422


class TestDoubts:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({}, None),
            ({"account_id": 7}, "merchant"),
            ({"our_reference": "PAY-other"}, "reference"),
            ({"reference": "sim_other"}, "reference"),
            ({"currency": "EUR"}, "currency"),
            ({"amount_minor": 1}, "amount"),
        ],
    )
    async def test_contradictions_are_named(
        self, rig: Rig, callback: Callback, change: dict[str, Any], reason: str | None
    ) -> None:
        sent = rig.sent[0]
        found = inbox.mismatch(
            replace(callback, **change),
            account_id=sent.account_id,
            our_reference=sent.our_reference,
            reference=callback.reference,
            amount_minor=sent.amount_minor,
            currency=sent.currency,
        )
        assert found == reason


class TestApplying:
    async def test_one_worker_at_a_time(self, rig: Rig, callback: Callback) -> None:
        now = await instance_now(rig.db)
        batches = await asyncio.gather(*(inbox.claim(rig.db, now) for _ in range(4)))
        assert sorted(map(len, batches)) == [0, 0, 0, 1]

    async def test_workers_that_come_together_never_get_the_same(
        self, rig: Rig, callback: Callback, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox, "BATCH", 2)
        names = {callback.event_id, *(f"sev_{n}" for n in range(7))}
        for name in names:
            await post(rig, replace(callback, event_id=name))
        now = await instance_now(rig.db)
        claimed: list[str] = []
        while len(claimed) < len(names):
            batches = await asyncio.gather(*(inbox.claim(rig.db, now) for _ in range(4)))
            assert any(batches), "nobody got any of what is left"
            claimed += [received.event_id for batch in batches for received in batch]
        assert sorted(claimed) == sorted(names)

    async def test_a_worker_that_lost_its_lease_finishes_nothing(self, rig: Rig, callback: Callback) -> None:
        now = await instance_now(rig.db)
        (slow,) = await inbox.claim(rig.db, now)
        await rig.db.execute("UPDATE processor_inbox SET lease_until = clock_timestamp() - interval '1 second'")
        (quick,) = await inbox.claim(rig.db, now)
        async with rig.db.transaction() as db:
            assert not await inbox.done(db, slow)
            assert await inbox.done(db, quick)
            assert not await inbox.done(db, quick)
        assert await states(rig) == [("done", None)]

    async def test_the_sweep_applies_each_once(self, rig: Rig, callback: Callback) -> None:
        applied: list[str] = []

        async def apply(desk: Desk, said: Callback, received: Received) -> None:
            async with desk.db.transaction() as db:
                if await inbox.done(db, received):
                    applied.append(said.event_id)

        sweep = inbox.sweep(lambda _: {"simulator": rig.processor}, apply)
        desk, now = desk_of(rig), await instance_now(rig.db)
        assert [await sweep.run(desk, now), await sweep.run(desk, now)] == [1, 0]
        assert applied == [callback.event_id]
        assert await inbox.next_due(rig.db) is None

    async def test_what_cannot_be_applied_is_tried_again_and_then_put_aside(self, rig: Rig, callback: Callback) -> None:
        async def apply(*_: Any) -> None:
            raise Unknown

        sweep = inbox.sweep(lambda _: {"simulator": rig.processor}, apply)
        desk, now = desk_of(rig), await instance_now(rig.db)
        tries = 0
        while (due := await inbox.next_due(rig.db)) is not None:
            now = max(now, due)
            tries += await sweep.run(desk, now)
        assert tries == inbox.TRIES
        assert await states(rig) == [("quarantined", "not_applied")]


class TestClock:
    async def test_the_worker_keeps_the_simulator_in_step(self, rig: Rig) -> None:
        """Before the clock goes on, what was due at the simulator is done and told."""
        desk = desk_of(rig)
        started = await rig.start()
        await rig.fault("payment", "late_callback")
        await rig.pay(started.reference)
        assert SIMULATOR.next_due is not None
        due = await SIMULATOR.next_due(rig.db)
        now = await instance_now(rig.db)
        assert due is not None
        assert timedelta(0) < due - now <= timedelta(seconds=30)
        assert await SIMULATOR.run(desk, now) == 0
        await rig.advance(31)
        await SIMULATOR.run(desk, await instance_now(rig.db))
        assert [said.kind for said in rig.heard] == ["payment.succeeded"]
        assert await SIMULATOR.next_due(rig.db) is None
        live = replace(desk, settings=desk.settings.model_copy(update={"env": "live"}))
        assert await SIMULATOR.run(live, await instance_now(rig.db)) == 0
