"""/compliance/requests, what staff ask and decide, and what is held back meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from bursar.core.clock import real_now
from bursar.core.errors import PaymentsPaused, PayoutsPaused
from bursar.features.compliance.states import HOLDING, MOVES
from bursar.http.caller import Gate, admit, load_account
from tests.features.compliance.factory import PROOF, REQUESTS, WEBSITE, ask, respond
from tests.features.connected_accounts.factory import events_of
from tests.features.uploads.corpus import image, pdf
from tests.support.service import Party, Service, new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

GOOD_FILE = ("letter.pdf", pdf(), "application/pdf")


async def read(service: Service, party: Party, request_id: int) -> dict[str, Any]:
    reply = await service.get(party, f"{REQUESTS}/{request_id}")
    shown: dict[str, Any] = reply.json()["data"]["compliance_request"]
    return shown


async def types_of(service: Service, party: Party) -> list[str]:
    return [event["type"] for event in await events_of(service, {"id": party.account_id})]


class TestAsk:
    async def test_a_request_with_every_field(self, service: Service) -> None:
        merchant = await service.open_account()
        due = (real_now() + timedelta(days=3)).isoformat()
        request = await ask(
            service, merchant.account_id, type="document", description="A letter, please.", fields=[PROOF],
            blocking=["payouts", "payouts"], due_at=due,
        )  # fmt: skip
        assert request["account_id"] == merchant.account_id
        assert request["status"] == "open"
        assert request["blocking"] == ["payouts"]
        assert request["documents"] == []
        assert await read(service, merchant, request["id"]) == request
        listed = await service.get(merchant, f"{REQUESTS}?status=open&type=document")
        assert listed.json()["data"] == [request]
        assert (await service.get(merchant, f"{REQUESTS}?status=approved")).json()["data"] == []
        assert await types_of(service, merchant) == ["compliance.requested"]

    async def test_bad_fields_are_named(self, service: Service) -> None:
        merchant = await service.open_account()
        bad = {"merchant": merchant.merchant_id, "type": "gossip", "title": "", "fields": [WEBSITE, WEBSITE],
               "blocking": ["sleep"], "due_at": "soon", "colour": "red"}  # fmt: skip
        reply = await service.ops("POST", "/compliance-requests", bad)
        names = {name.partition(".")[0] for name in reply.json()["error"]["details"]}
        assert names == set(bad) - {"merchant"}
        past = {"merchant": merchant.merchant_id, "type": "bank", "title": "x", "due_at": "2020-01-01T00:00:00Z"}
        assert "due_at" in (await service.ops("POST", "/compliance-requests", past)).json()["error"]["details"]
        unknown = await service.ops("POST", "/compliance-requests", {**past, "merchant": 999999, "due_at": None})
        assert unknown.json()["error"]["code"] == "account_not_found"


class TestRespond:
    async def test_answers_and_files(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id, fields=[WEBSITE, PROOF])
        files = [GOOD_FILE, ("shop.png", image("PNG"), "image/png")]
        reply = await respond(service, merchant, request["id"], {"website": "https://quay.example"}, files)
        assert reply.status_code == 201, reply.text
        shown = reply.json()["data"]["compliance_request"]
        assert shown["status"] == "submitted"
        assert [(document["name"], document["mime"]) for document in shown["documents"]] == [
            ("letter.pdf", "application/pdf"), ("shop.png", "image/png"),
        ]  # fmt: skip
        assert await read(service, merchant, request["id"]) == shown
        staff = (await service.ops("GET", f"/compliance-requests/{request['id']}")).json()["data"]
        assert staff["responses"][0]["answers"] == {"website": "https://quay.example"}
        file = await service.ops("GET", f"/uploads/{shown['documents'][0]['id']}")
        assert file.content == GOOD_FILE[1]
        assert await types_of(service, merchant) == ["compliance.requested", "compliance.submitted"]

    async def test_json_will_do_where_no_file_is_needed(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id)
        reply = await service.send(
            merchant, "POST", f"{REQUESTS}/{request['id']}/responses", {"answers": {"website": "quay.example"}}
        )
        assert reply.status_code == 201, reply.text

    async def test_a_retry_with_another_boundary_is_the_same_request(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id)
        key = new_key()
        first = await respond(service, merchant, request["id"], {"website": "x"}, [GOOD_FILE], key=key)
        again = await respond(
            service, merchant, request["id"], {"website": "x"}, [GOOD_FILE], key=key, boundary="other"
        )
        assert (again.status_code, again.content) == (201, first.content)
        other = await respond(service, merchant, request["id"], {"website": "y"}, [GOOD_FILE], key=key)
        assert other.json()["error"]["code"] == "idempotency_conflict"

    async def test_what_is_wrong_with_an_answer(self, service: Service) -> None:
        merchant = await service.open_account()
        kinds = ("number", "date", "boolean", "text")
        fields = [{"key": kind, "label": kind, "type": kind, "required": kind != "text"} for kind in kinds]
        request = await ask(service, merchant.merchant_id, fields=[*fields, PROOF])
        bad: dict[str, Any] = {"number": "many", "date": "2026-02-30", "boolean": "perhaps", "text": {"a": 1},
                               "proof": "x", "other": 1}  # fmt: skip
        reply = await respond(service, merchant, request["id"], bad)
        assert reply.json()["error"]["code"] == "validation_error"
        assert set(reply.json()["error"]["details"]) == {f"answers.{name}" for name in bad}
        reply = await respond(service, merchant, request["id"], {})
        assert set(reply.json()["error"]["details"]) == {"answers.number", "answers.date", "answers.boolean"}
        for text in ("[1]", "{", "7"):
            reply = await respond(service, merchant, request["id"], text)
            assert (reply.status_code, list(reply.json()["error"]["details"])) == (422, ["answers"])
        good = {"number": "-1.5", "date": "2026-02-28", "boolean": "true"}
        reply = await respond(service, merchant, request["id"], good)
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "document_required")
        assert (await respond(service, merchant, request["id"], good, [GOOD_FILE])).status_code == 201

    async def test_bad_files(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id, type="document", fields=[])
        reply = await respond(service, merchant, request["id"], {})
        assert reply.json()["error"]["code"] == "document_required"
        script = ("x.pdf", pdf("<< /S /JavaScript >>"), "application/pdf")
        reply = await respond(service, merchant, request["id"], {}, [GOOD_FILE, script])
        assert (reply.status_code, reply.json()["error"]["code"]) == (422, "unsupported_file_type")
        large = ("x.pdf", b"%PDF-" + b"0" * (10 * 1024 * 1024), "application/pdf")
        reply = await respond(service, merchant, request["id"], {}, [large])
        assert (reply.status_code, reply.json()["error"]["code"]) == (413, "file_too_large")
        assert (await read(service, merchant, request["id"]))["documents"] == [], "all or nothing"

    async def test_only_the_open_can_be_answered(self, service: Service) -> None:
        merchant, other = await service.open_account(), await service.open_account()
        request = await ask(service, merchant.merchant_id)
        for reply in (
            await respond(service, other, request["id"], {"website": "x"}),
            await service.get(other, f"{REQUESTS}/{request['id']}"),
            await service.get(merchant, f"{REQUESTS}/x"),
            await service.ops("POST", "/compliance-requests/1/decide", {"decision": "approved"}),
            await service.ops("GET", "/compliance-requests/999999"),
        ):
            assert (reply.status_code, reply.json()["error"]["code"]) == (404, "compliance_request_not_found")
        await respond(service, merchant, request["id"], {"website": "x"})
        reply = await respond(service, merchant, request["id"], {"website": "x"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (409, "compliance_request_closed")


class TestDecide:
    async def test_rejected_opens_it_again_then_approved(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id)
        path = f"/compliance-requests/{request['id']}/decide"
        early = await service.ops("POST", path, {"decision": "rejected"})
        assert early.json()["error"]["code"] == "compliance_request_closed", "there is nothing to reject"
        await respond(service, merchant, request["id"], {"website": "x"})
        reply = await service.ops("POST", path, {"decision": "rejected", "notes": "That is not a website."})
        shown = reply.json()["data"]["compliance_request"]
        assert (shown["status"], shown["decision_notes"]) == ("rejected", "That is not a website.")
        assert (await respond(service, merchant, request["id"], {"website": "quay.example"})).status_code == 201
        reply = await service.ops("POST", path, {"decision": "approved"})
        assert reply.json()["data"]["compliance_request"]["decided_at"]
        again = await service.ops("POST", path, {"decision": "rejected"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "compliance_request_closed")
        assert await types_of(service, merchant) == [
            "compliance.requested", "compliance.submitted", "compliance.rejected", "compliance.submitted",
            "compliance.approved",
        ]  # fmt: skip

    async def test_what_a_request_blocks_is_blocked(self, service: Service) -> None:
        merchant = await service.open_account()
        one = await ask(service, merchant.merchant_id, blocking=["payments", "payouts"])
        two = await ask(service, merchant.merchant_id, blocking=["payouts"])

        async def held() -> list[str]:
            account = await load_account(service.db, merchant.merchant_id)
            assert account is not None
            for gate, error in ((Gate.PAYMENTS, PaymentsPaused), (Gate.TRANSFERS, PayoutsPaused)):
                kind = "payments" if gate is Gate.PAYMENTS else "payouts"
                if kind in account.compliance_holds:
                    with pytest.raises(error):
                        admit(account, gate)
                else:
                    admit(account, gate)
            return list(account.compliance_holds)

        assert await held() == ["payments", "payouts"]
        shown = (await service.get(merchant, "/account")).json()["data"]["account"]
        assert shown["capabilities"]["payments"] == "inactive"
        assert shown["requirements"]["disabled_reason"] == "compliance_hold"
        await respond(service, merchant, one["id"], {"website": "x"})
        await service.ops("POST", f"/compliance-requests/{one['id']}/decide", {"decision": "approved"})
        assert await held() == ["payouts"]
        await service.ops("POST", f"/compliance-requests/{two['id']}/decide", {"decision": "cancelled"})
        assert await held() == []

    async def test_staff_lists(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id)
        listed = await service.ops("GET", f"/compliance-requests?merchant={merchant.account_id}&status=open")
        assert [row["id"] for row in listed.json()["data"]] == [request["id"]]


class TestOverdue:
    async def test_late_is_late_and_still_blocks(self, service: Service) -> None:
        merchant = await service.open_account()
        request = await ask(service, merchant.merchant_id, blocking=["payouts"])
        reply = await service.ops("POST", "/clock/advance", {"seconds": 14 * 86_400 + 60})
        assert "compliance_requests" in {entry["job"] for entry in reply.json()["data"]["ran"]}
        assert (await read(service, merchant, request["id"]))["status"] == "expired"
        assert (await types_of(service, merchant))[-1] == "compliance.overdue"
        shown = (await service.get(merchant, "/account")).json()["data"]["account"]
        assert shown["requirements"]["past_due"] == [f"compliance_request.{request['id']}"]
        assert shown["capabilities"]["payouts"] == "inactive"
        reply = await respond(service, merchant, request["id"], {"website": "x"})
        assert reply.json()["error"]["code"] == "compliance_request_closed"
        await service.ops("POST", f"/compliance-requests/{request['id']}/decide", {"decision": "approved"})
        shown = (await service.get(merchant, "/account")).json()["data"]["account"]
        assert shown["requirements"]["past_due"] == []


class TestSandbox:
    async def test_one_in_every_state_and_a_dry_response(self, service: Service) -> None:
        merchant = await service.open_account()
        listed = await service.get(merchant.test_secret_key, f"/sandbox/v2{REQUESTS}?sort=id")
        assert [request["status"] for request in listed.json()["data"]] == [
            "open", "submitted", "approved", "rejected", "expired", "cancelled",
        ]  # fmt: skip
        tester = Party(**{**vars(merchant), "secret_key": merchant.test_secret_key})
        path = f"/sandbox/v2{REQUESTS}/4/responses"
        reply = await respond(service, tester, 4, {}, [GOOD_FILE], path=path)
        assert reply.status_code == 201, reply.text
        assert reply.json()["meta"]["sandbox"] is True
        kept = await service.db.fetchval("SELECT count(*) FROM upload WHERE account_id < 1001")
        assert kept == 0


async def test_every_state_that_holds_can_be_cleared() -> None:
    assert {state for state, happened in MOVES if happened == "approved"} == set(HOLDING)
