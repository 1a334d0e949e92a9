"""Proof of what was sold, and the reserve."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.support import signing
from tests.support.service import Party, new_key
from tests.support.till import Till

pytestmark = pytest.mark.asyncio(loop_scope="module")

D = Decimal


def code(reply: httpx.Response) -> str | None:
    body = reply.json()
    return None if body["success"] else str(body["error"]["code"])


def picture(kind: str = "PNG") -> bytes:
    drawn = io.BytesIO()
    Image.new("RGB", (8, 8), "white").save(drawn, kind)
    return drawn.getvalue()


async def paid(till: Till, merchant: Party) -> dict[str, Any]:
    payment = await till.create(merchant)
    await till.pay(payment)
    return payment


async def asked(till: Till, payment: dict[str, Any], **fields: Any) -> httpx.Response:
    body = {"reason": "Show us the invoice", **fields}
    return await till.service.ops("POST", f"/transactions/{payment['id']}/proof-requests", body)


async def decided(till: Till, payment: dict[str, Any], how: str, **fields: Any) -> httpx.Response:
    return await till.service.ops("POST", f"/transactions/{payment['id']}/proof/{how}", fields)


async def sent(
    till: Till, merchant: Party, payment: dict[str, Any], fields: dict[str, str] | None = None,
    file: tuple[str, bytes, str] | None = None,
) -> httpx.Response:  # fmt: skip
    """A signed multipart request, as a client would build it."""
    form = [("courier_company", "Royal Mail"), *(fields or {}).items()]
    boundary = "a-boundary"
    raw = b"".join(
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in form
    )
    if file is not None:
        name, content, mime = file
        head = f'Content-Disposition: form-data; name="invoice_file"; filename="{name}"\r\nContent-Type: {mime}'
        raw += f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n"
    raw += f"--{boundary}--\r\n".encode()
    return await till.service.client.post(
        f"/v2/transactions/{payment['id']}/proof",
        content=raw,
        headers={
            "Authorization": f"Bearer {merchant.secret_key}",
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Idempotency-Key": new_key(),
            **signing.legacy(merchant.secret_key, raw),
        },
    )


async def read(till: Till, merchant: Party, payment: dict[str, Any]) -> httpx.Response:
    return await till.service.get(merchant, f"/transactions/{payment['id']}/proof")


class TestAsking:
    async def test_the_net_amount_is_held(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        reply = await asked(till, payment)
        assert reply.status_code == 201
        data = reply.json()["data"]
        assert data["proof_request"]["status"] == "requested"
        assert (data["transaction"]["proof_status"], data["transaction"]["reserve_amount"]) == ("requested", 49.04)
        assert await till.wallet(merchant) == {"main": 0, "pending": 0, "reserve": D("49.04")}
        assert (await read(till, merchant, payment)).json()["data"] == data
        told = (await till.events(merchant))[2:]
        assert told == ["transaction.proof_requested", "balance.reserve_held"]

    async def test_the_account_shows_it_as_due(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)

        async def due() -> list[str]:
            reply = await till.service.get(merchant, "/account")
            return list(reply.json()["data"]["account"]["requirements"]["currently_due"])

        assert f"proof.{payment['id']}" not in await due()
        await asked(till, payment)
        assert f"proof.{payment['id']}" in await due()

    async def test_another_amount(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment, reserve_amount=10)
        assert await till.wallet(merchant) == {"main": 0, "pending": D("39.04"), "reserve": D("10.00")}

    async def test_none(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        data = (await asked(till, payment, reserve_amount=0)).json()["data"]
        assert (data["transaction"]["proof_status"], data["transaction"]["is_reserve"]) == ("requested", False)
        assert "balance.reserve_held" not in await till.events(merchant)

    async def test_what_it_refuses(self, till: Till, merchant: Party) -> None:
        pending = await till.create(merchant, "unpaid")
        assert code(await asked(till, pending)) == "transaction_not_paid"
        payment = await paid(till, merchant)
        assert code(await asked(till, payment, reserve_amount=49.99)) == "insufficient_balance"
        assert code(await asked(till, payment, reserve_amount=60)) == "validation_error"
        await asked(till, payment)
        assert code(await asked(till, payment)) == "proof_already_requested"
        assert code(await till.service.ops("POST", "/transactions/7/proof-requests", {"reason": "x"})) == "not_found"


class TestSending:
    async def test_it_is_submitted(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment)
        fields = {"tracking_number": "RM1", "buyer_firstname": "Ada", "buyer_email": "ada@example.com"}
        reply = await sent(till, merchant, payment, fields, ("invoice.png", picture(), "image/png"))
        assert reply.status_code == 200, reply.text
        proof = reply.json()["data"]["proof_request"]
        assert (proof["status"], proof["courier_company"], proof["tracking_number"]) == (
            "submitted", "Royal Mail", "RM1",
        )  # fmt: skip
        assert proof["buyer"] == {"firstname": "Ada", "lastname": None, "phone": None, "email": "ada@example.com"}
        assert proof["has_invoice_file"] is True
        assert reply.json()["data"]["transaction"]["proof_status"] == "submitted"
        assert (await till.events(merchant))[-1] == "transaction.proof_submitted"

    @pytest.mark.parametrize(("name", "kind"), [("a.webp", "WEBP"), ("a.jpg", "JPEG"), ("a.png", "PNG")])
    async def test_pictures(self, till: Till, merchant: Party, name: str, kind: str) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment, invoice_file_required=True)
        file = (name, picture(kind), f"image/{kind.lower()}")
        assert (await sent(till, merchant, payment, file=file)).status_code == 200

    async def test_the_invoice_that_was_asked_for(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment, invoice_file_required=True)
        reply = await sent(till, merchant, payment)
        assert (reply.status_code, code(reply)) == (422, "invoice_file_required")

    async def test_files_that_are_none(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment)
        reply = await sent(till, merchant, payment, file=("a.exe", b"MZ", "application/octet-stream"))
        assert (reply.status_code, code(reply)) == (422, "unsupported_file_type")
        reply = await sent(till, merchant, payment, file=("a.png", b"x" * (10 * 1024 * 1024 + 1), "image/png"))
        assert (reply.status_code, code(reply)) == (413, "file_too_large")
        assert (await read(till, merchant, payment)).json()["data"]["proof_request"]["status"] == "requested"

    async def test_nobody_asked(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        assert code(await sent(till, merchant, payment)) == "proof_not_requested"
        assert code(await read(till, merchant, payment)) == "proof_request_not_found"
        other = await till.service.open_account()
        assert code(await read(till, other, payment)) == "not_found"
        assert code(await sent(till, other, payment)) == "not_found"


class TestDeciding:
    async def test_approved(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment)
        await sent(till, merchant, payment)
        reply = await decided(till, payment, "approve", notes="In order")
        assert reply.status_code == 200
        data = reply.json()["data"]
        assert (data["proof_request"]["status"], data["proof_request"]["staff_notes"]) == ("approved", "In order")
        assert (data["transaction"]["proof_status"], data["transaction"]["reserve_amount"]) == ("approved", 0)
        assert await till.wallet(merchant) == {"main": 0, "pending": D("49.04"), "reserve": 0}
        assert (await till.events(merchant))[-2:] == ["transaction.proof_approved", "balance.reserve_released"]
        assert code(await decided(till, payment, "approve")) == "proof_already_approved"
        assert code(await sent(till, merchant, payment)) == "proof_already_approved"

    async def test_released_in_parts_and_after_settlement(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment)
        await sent(till, merchant, payment)
        await decided(till, payment, "approve", release_amount=9.04)
        assert await till.wallet(merchant) == {"main": 0, "pending": D("9.04"), "reserve": D("40.00")}
        await till.advance(days=7)
        assert code(await decided(till, payment, "approve", release_amount=41)) == "validation_error"
        assert (await decided(till, payment, "approve")).status_code == 200
        assert await till.wallet(merchant) == {"main": D("49.04"), "pending": 0, "reserve": 0}
        events = await till.events(merchant)
        assert (events.count("transaction.proof_approved"), events.count("balance.reserve_released")) == (1, 2)

    async def test_rejected_and_sent_again(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        await asked(till, payment)
        assert code(await decided(till, payment, "reject")) == "proof_not_submitted"
        await sent(till, merchant, payment)
        reply = await decided(till, payment, "reject", notes="Not readable")
        assert reply.json()["data"]["transaction"]["proof_status"] == "rejected"
        assert await till.wallet(merchant) == {"main": 0, "pending": 0, "reserve": D("49.04")}
        assert (await till.events(merchant))[-1] == "transaction.proof_rejected"
        assert code(await decided(till, payment, "approve")) == "proof_not_submitted"
        assert (await sent(till, merchant, payment)).json()["data"]["proof_request"]["status"] == "submitted"
        assert (await decided(till, payment, "approve")).status_code == 200

    async def test_nobody_asked(self, till: Till, merchant: Party) -> None:
        payment = await paid(till, merchant)
        for how in ("approve", "reject"):
            assert code(await decided(till, payment, how)) == "proof_not_requested"
