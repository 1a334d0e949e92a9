"""The simulator keeps the contract of every processor; and what only it has: its link, its operator's controls."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from bursar.core.clock import unix_now
from bursar.db.embedded import Urls
from bursar.processors import card_errors
from bursar.processors.protocol import NotAuthentic, PayoutAccepted, Rejected, Unknown
from bursar.processors.signing import LinkKeys, sign_call, sign_callback
from bursar.processors.simulator import scenarios
from bursar.processors.simulator.serve import CannotServe, opened
from bursar.processors.simulator_client import SimulatorClient
from tests.processors import contract
from tests.processors.running import Rig


class TestStarting(contract.Starting):
    pass


class TestPaying(contract.Paying):
    pass


class TestCancelling(contract.Cancelling):
    pass


class TestRefunding(contract.Refunding):
    pass


class TestPayingOut(contract.PayingOut):
    async def test_the_operator_moves_it_on(self, rig: Rig) -> None:
        accepted = await rig.processor.payout(await rig.payout_to())
        assert isinstance(accepted, PayoutAccepted)
        assert (await rig.processor.advance_payout(accepted.reference, "paid")).status == "paid"
        with pytest.raises(Rejected, match="invalid_step"):
            await rig.processor.advance_payout(accepted.reference, "failed")
        state = await rig.processor.advance_payout(accepted.reference, "returned", "account_frozen")
        assert (state.status, state.failure_code) == ("returned", "account_frozen")
        assert await rig.processor.advance_payout(accepted.reference, "returned") == state
        assert await rig.hear() == ["payout.in_transit", "payout.paid", "payout.returned"]
        with pytest.raises(Rejected, match="invalid_request"):
            await rig.processor.advance_payout(accepted.reference, "paid", "bored")


class TestMisbehaving(contract.Misbehaving):
    async def test_only_what_there_is_can_be_ordered(self, rig: Rig) -> None:
        for operation, kind, count in (("parking", "error", 1), ("payment", "laughter", 1), ("payment", "error", 0)):
            with pytest.raises(Rejected, match="invalid_request"):
                await rig.fault(operation, kind, count)


class TestKeepingBooks(contract.KeepingBooks):
    async def test_no_card_number_is_kept(self, rig: Rig) -> None:
        for card in scenarios.CARDS:
            await rig.pay((await rig.start()).reference, card.number, authenticate=True)
        await rig.hear()
        tables = await rig.db.fetch(
            "SELECT schemaname || '.' || tablename AS name FROM pg_tables WHERE schemaname IN ('public', 'simulator')"
        )
        for table in tables:
            rows = await rig.db.fetch(f"SELECT t::text AS line FROM {table['name']} t")
            for row in rows:
                text = row["line"] + bytes.fromhex("".join(_hex_parts(row["line"]))).decode(errors="ignore")
                assert not any(card.number in text for card in scenarios.CARDS), table["name"]


def _hex_parts(line: str) -> list[str]:
    """Bytes are printed in hexadecimal digits; the callbacks' bodies are such."""
    parts = line.split("\\\\x")[1:]
    return [part[: len(part) - len(part.lstrip("0123456789abcdef"))] for part in parts]


class TestLink:
    async def test_calls_must_be_signed(self, rig: Rig) -> None:
        url = rig.settings.simulator_public_url
        keys = LinkKeys.of(rig.settings.simulator_secret)
        body = b'{"operation":"payment","kind":"error","count":1}'
        good = sign_call(keys.calls, "POST", "/v1/faults", body)
        stale = sign_call(keys.calls, "POST", "/v1/faults", body, unix_now() - 301)
        elsewhere = sign_call(keys.calls, "POST", "/v1/run-due", body)
        async with httpx.AsyncClient() as client:
            for headers, status in ((good, 200), (stale, 401), (elsewhere, 401), ({}, 401)):
                reply = await client.post(f"{url}/v1/faults", content=body, headers=headers)
                assert reply.status_code == status
            assert (await client.post(f"{url}/v1/faults", content=body + b" ", headers=good)).status_code == 401
            assert (await client.get(f"{url}/health")).status_code == 200

    async def test_callbacks_must_be_signed(self, rig: Rig) -> None:
        await rig.paid()
        await rig.hear()
        raw = await rig.db.fetchval("SELECT raw FROM processor_inbox")
        event_id = rig.heard[0].event_id
        keys = LinkKeys.of(rig.settings.simulator_secret)
        good = sign_callback(keys.callbacks, event_id, raw)
        assert rig.processor.verify_callback(good, raw) == rig.heard[0]
        wrong = [
            ({}, raw),
            (good, raw.replace(b"10000", b"90000")),
            (sign_callback(keys.calls, event_id, raw), raw),
            (sign_callback(keys.callbacks, event_id, raw, unix_now() - 301), raw),
            (sign_callback(keys.callbacks, "sev_another", raw), raw),
            ({**good, "processor-event-id": "sev_another"}, raw),
        ]
        for headers, body in wrong:
            with pytest.raises(NotAuthentic):
                rig.processor.verify_callback(headers, body)

    async def test_a_simulator_that_does_not_run_is_unknown(self, rig: Rig) -> None:
        nobody = SimulatorClient("http://127.0.0.1:9", rig.settings.simulator_secret, 0.5)
        with pytest.raises(Unknown):
            await nobody.confirm("sim_anything")

    async def test_a_wrong_secret_decides_nothing(self, rig: Rig) -> None:
        """It says nothing about what an earlier call did, so it is no refusal."""
        stranger = SimulatorClient(rig.settings.simulator_public_url, b"another", 0.5)
        with pytest.raises(Unknown, match="401"):
            await stranger.cancel((await rig.start()).reference)

    @pytest.mark.parametrize("wrong", [{"env": "live"}, {"processor_secret": b"", "key_pepper": b""}])
    async def test_it_refuses_to_run_where_it_should_not(self, rig: Rig, wrong: dict[str, Any]) -> None:
        with pytest.raises(CannotServe):
            async with opened(rig.settings.model_copy(update=wrong)):
                pass


class TestTrouble:
    async def test_nothing_typed_gets_into_a_log(self, rig: Rig, urls: Urls, capfd: pytest.CaptureFixture[str]) -> None:
        """The books break while a card is tried: the customer gets a page, the service no answer, the log no number."""
        started, number = await rig.start(), "4242424242424242"
        async with httpx.AsyncClient() as client:
            page = await client.get(started.page_url)
            found = re.search(r'name="ticket" value="([^"]+)"', page.text)
            assert found is not None
            owner = await asyncpg.connect(urls.owner)
            await owner.execute("ALTER TABLE simulator.attempt RENAME TO attempt_gone")
            await owner.close()
            fields = {"ticket": found[1], "number": number, "expiry": "12/40", "cvc": "123", "holder": "Ada"}
            broken = await client.post(started.page_url, data=fields)
        assert broken.status_code == 503
        assert "<h1" in broken.text
        with pytest.raises(Unknown):
            await rig.pay(started.reference, number)
        said = capfd.readouterr()
        assert "simulator.failed" in said.out + said.err
        assert number not in said.out + said.err + broken.text


class TestScenarios:
    def test_every_error_is_one_of_the_specification(self) -> None:
        for card in scenarios.CARDS:
            if card.error_code:
                error = card_errors.card_error(card.error_code, card.decline_code)
                assert (error.code, error.decline_code) == (card.error_code, card.decline_code)

    def test_strange_codes_become_general_ones(self) -> None:
        assert card_errors.card_error("do_not_pass_go").code == "payment_failed"
        assert card_errors.card_error("card_declined", "pickup_card").decline_code == "generic_decline"

    def test_cards_are_good_until_the_end_of_their_month(self) -> None:
        now = datetime.fromisoformat("2030-04-30T23:59:59+00:00")
        assert not scenarios.expiry_is_past(4, 2030, now)
        assert scenarios.expiry_is_past(4, 2030, now + timedelta(seconds=1))

    def test_a_card_does_not_print_its_number(self) -> None:
        assert not any(card.number in repr(card) for card in scenarios.CARDS)
