"""Asking for proof, sending it, deciding on it; and the reserve held meanwhile."""

from __future__ import annotations

from decimal import Decimal

from bursar.core.errors import ValidationFailed
from bursar.core.money import InvalidAmount, format_major, parse_major
from bursar.db.pool import Queryable, Record
from bursar.features.payments import service as payments
from bursar.features.payments.service import Row
from bursar.features.proof import queries
from bursar.features.proof.errors import (
    InvoiceFileRequired,
    ProofAlreadyApproved,
    ProofAlreadyRequested,
    ProofNotRequested,
    ProofRequestNotFound,
    TransactionNotPaid,
)
from bursar.features.proof.schemas import Buyer, Proof, ProofRequest, Reserve, SubmittedProof
from bursar.features.proof.states import move
from bursar.features.uploads import service as uploads
from bursar.features.uploads.inspection import inspect
from bursar.http.context import Account, Ctx
from bursar.ledger import journals
from bursar.ledger.lines import Journal
from bursar.ledger.post import Outcome, post

RISK_REASON = "The card processor asks for proof of this sale."


def subject(request_id: int) -> str:
    return f"proof_request:{request_id}"


async def as_reply(db: Queryable, request: Row, payment: Row, public_id: str) -> Proof:
    files = await uploads.documents_of(db, request["account_id"], [subject(request["id"])])
    shown = ProofRequest(
        id=request["id"],
        transaction_id=request["payment_id"],
        status=request["status"],
        reason=request["reason"],
        invoice_file_required=request["invoice_file_required"],
        courier_company=request["courier_company"],
        tracking_number=request["tracking_number"],
        buyer=Buyer(
            request["buyer_firstname"], request["buyer_lastname"], request["buyer_phone"], request["buyer_email"]
        ),
        has_invoice_file=bool(files.get(subject(request["id"]))),
        merchant_notes=request["merchant_notes"],
        staff_notes=request["staff_notes"],
        created_at=request["created_at"],
        submitted_at=request["submitted_at"],
        decided_at=request["decided_at"],
    )
    return Proof(shown, payments.transaction(payment, public_id))


async def show(ctx: Ctx) -> Proof:
    payment = await payments.named(ctx, ctx.path["id"])
    request = await queries.newest(ctx.db, payment["account_id"], payment["id"])
    if request is None:
        raise ProofRequestNotFound
    return await as_reply(ctx.db, request, payment, ctx.account.public_id)


# Asking -------------------------------------------------------------------------------------------------------------


async def ask(
    ctx: Ctx, account: Account, payment: Row, reason: str, *, invoice: bool, reserve: Decimal | None = None
) -> Proof:
    """Asks the merchant for proof of a payment that is locked, and holds what it earned until then."""
    if payment["status"] != "succeeded":
        raise TransactionNotPaid(details={"status": payment["status"]})
    if payment["proof_status"] in ("requested", "submitted", "rejected"):
        raise ProofAlreadyRequested
    request_id = await queries.next_id(ctx.db)
    request = await queries.insert(
        ctx.db, payment["account_id"], request_id, payment["id"], reason, ctx.now, invoice=invoice
    )
    held = await _hold(ctx, payment, request_id, _amount(reserve, payment, "reserve_amount"), exact=reserve is not None)
    after = await queries.set_proof(ctx.db, payment["account_id"], payment["id"], "requested", held, ctx.now)
    reply = await as_reply(ctx.db, request, after, account.public_id)
    _tell(ctx, account, "transaction.proof_requested", reply)
    if held:
        ctx.emit_for(account, "balance.reserve_held", {"balance": _reserve(account, after, held)})
    return reply


def net_amount(payment: Row) -> int:
    """What of the payment is still the merchant's."""
    fee = payment["fee_minor"] if payment["fee_payer"] == "connected_account" else 0
    taken = payment["refunded_minor"] + payment["refunding_minor"]
    shared = (payment["application_fee_minor"] or 0) - payment["application_fee_back_minor"]
    left: int = payment["amount_minor"] - fee - shared - taken - payment["reserve_minor"]
    return max(0, left)


def _amount(sent: Decimal | None, payment: Row, field: str) -> int:
    """Minor units of an amount within the payment; by default its net amount."""
    if sent is None:
        return net_amount(payment)
    try:
        amount = parse_major(sent, payment["currency"])
    except InvalidAmount as error:
        raise ValidationFailed(details={field: [str(error)]}) from None
    if not 0 <= amount <= payment["amount_minor"]:
        raise ValidationFailed(details={field: ["must be between zero and the payment's amount"]})
    return amount


async def _hold(ctx: Ctx, payment: Row, request_id: int, amount: int, *, exact: bool) -> int:
    """Sets the amount aside. Where nobody named one, what the wallet has will do."""
    while amount > 0:
        journal = journals.reserve(
            account_id=payment["account_id"],
            hold_id=request_id,
            transaction_id=payment["id"],
            currency=payment["currency"],
            amount=amount,
            note=payment["payment_reference"],
        )
        [posting] = await post(ctx.db, [journal], require=exact)
        if posting.outcome is not Outcome.INSUFFICIENT:
            return amount
        amount = max(0, min(amount - 1, posting.available_minor or 0))
    return 0


# Sending ------------------------------------------------------------------------------------------------------------


async def submit(ctx: Ctx, sent: SubmittedProof) -> Proof:
    files = [await inspect(upload, field="invoice_file", webp=True) for upload in sent.invoice_file]
    payment = await payments.locked(ctx)
    request = await queries.newest(ctx.db, payment["account_id"], payment["id"])
    if request is None:
        raise ProofNotRequested
    status = move(request["status"], "submit")
    if request["invoice_file_required"] and not files and not await _has_file(ctx, request):
        raise InvoiceFileRequired(details={"invoice_file": ["is required"]})
    for file in files:
        await uploads.keep(ctx, payment["account_id"], file, purpose="proof", subject=subject(request["id"]))
    after = await queries.submit(ctx.db, request, sent, ctx.now)
    paid = await queries.set_proof(ctx.db, payment["account_id"], payment["id"], status, 0, ctx.now)
    reply = await as_reply(ctx.db, after, paid, ctx.account.public_id)
    _tell(ctx, ctx.account, "transaction.proof_submitted", reply, before=request["status"])
    return reply


async def _has_file(ctx: Ctx, request: Row) -> bool:
    found = await uploads.documents_of(ctx.db, request["account_id"], [subject(request["id"])])
    return bool(found.get(subject(request["id"])))


# Deciding -----------------------------------------------------------------------------------------------------------


async def approve(ctx: Ctx, account: Account, payment: Row, notes: str | None, release: Decimal | None) -> Proof:
    """Approves, and releases all or part of what is held; what is left can be released by approving again."""
    request = await _requested(ctx, payment)
    held: int = payment["reserve_minor"]
    amount = held if release is None else _amount(release, payment, "release_amount")
    if amount > held:
        raise ValidationFailed(details={"release_amount": ["is more than what is held"]})
    first = request["status"] != "approved"
    if first:
        move(request["status"], "approve")
    elif not amount:
        raise ProofAlreadyApproved
    after = await queries.decide(ctx.db, request, "approved", notes, ctx.now)
    if amount:
        number = await queries.count_release(ctx.db, request)
        await post(ctx.db, [_release(payment, f"{request['id']}-{number}", amount)])
    paid = await queries.set_proof(ctx.db, payment["account_id"], payment["id"], "approved", -amount, ctx.now)
    reply = await as_reply(ctx.db, after, paid, account.public_id)
    if first:
        _tell(ctx, account, "transaction.proof_approved", reply, before=request["status"])
    if amount:
        ctx.emit_for(account, "balance.reserve_released", {"balance": _reserve(account, paid, amount)})
    return reply


async def reject(ctx: Ctx, account: Account, payment: Row, notes: str | None) -> Proof:
    """What is held stays held; the merchant may send better proof."""
    request = await _requested(ctx, payment)
    status = move(request["status"], "reject")
    after = await queries.decide(ctx.db, request, status, notes, ctx.now)
    paid = await queries.set_proof(ctx.db, payment["account_id"], payment["id"], status, 0, ctx.now)
    reply = await as_reply(ctx.db, after, paid, account.public_id)
    _tell(ctx, account, "transaction.proof_rejected", reply, before=request["status"])
    return reply


async def _requested(ctx: Ctx, payment: Row) -> Record:
    request = await queries.newest(ctx.db, payment["account_id"], payment["id"])
    if request is None:
        raise ProofNotRequested
    return request


def _release(payment: Row, release_id: str, amount: int) -> Journal:
    return journals.reserve_release(
        account_id=payment["account_id"],
        release_id=release_id,
        transaction_id=payment["id"],
        currency=payment["currency"],
        amount=amount,
        note=payment["payment_reference"],
    )


def _reserve(account: Account, payment: Row, amount: int) -> Reserve:
    currency = payment["currency"]
    return Reserve(
        account.public_id,
        payment["id"],
        currency,
        format_major(amount, currency),
        format_major(payment["reserve_minor"], currency),
    )


def _tell(ctx: Ctx, account: Account, type_: str, reply: Proof, *, before: str | None = None) -> None:
    data = {"transaction": reply.transaction, "proof_request": reply.proof_request}
    ctx.emit_for(account, type_, data, previous={"proof_status": before})


async def _asked_by_processor(ctx: Ctx, payment: Row) -> None:
    """The processor sees a risk in a payment just made."""
    if payment["status"] == "succeeded" and payment["proof_status"] is None:
        await ask(ctx, ctx.account, payment, RISK_REASON, invoice=False)


payments.FOLLOWERS.concerns["proof_requested"] = _asked_by_processor
