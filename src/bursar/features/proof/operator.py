"""Staff ask for proof and decide on it."""

from __future__ import annotations

from bursar.core.errors import InsufficientBalance, NotFound
from bursar.db.pool import Record
from bursar.features.payments import service as payments
from bursar.features.proof import service
from bursar.features.proof.errors import (
    ProofAlreadyApproved,
    ProofAlreadyRequested,
    ProofNotRequested,
    ProofNotSubmitted,
    TransactionNotPaid,
)
from bursar.features.proof.schemas import Approval, NewProofRequest, Proof, Rejection
from bursar.http.context import Account, Audit, Ctx
from bursar.http.families import OPERATOR
from bursar.http.routes import Local, Route


async def ask(ctx: Ctx, body: NewProofRequest) -> Proof:
    account, payment = await payments.of_anybody(ctx)
    reply = await service.ask(
        ctx, account, payment, body.reason, invoice=body.invoice_file_required, reserve=body.reserve_amount
    )
    _note(ctx, account, payment, reply)
    return reply


async def approve(ctx: Ctx, body: Approval) -> Proof:
    account, payment = await payments.of_anybody(ctx)
    reply = await service.approve(ctx, account, payment, body.notes, body.release_amount)
    _note(ctx, account, payment, reply)
    return reply


async def reject(ctx: Ctx, body: Rejection) -> Proof:
    account, payment = await payments.of_anybody(ctx)
    reply = await service.reject(ctx, account, payment, body.notes)
    _note(ctx, account, payment, reply)
    return reply


def _note(ctx: Ctx, account: Account, payment: Record, reply: Proof) -> None:
    before = {"transaction": payment["id"], "status": payment["proof_status"], "reserve": payment["reserve_minor"]}
    after = {"status": reply.proof_request.status, "reserve": reply.transaction.reserve_amount}
    ctx.audit = Audit(account.account_id, before=before, after=after)


ROUTES = (
    Route(
        method="POST",
        path="/transactions/{id}/proof-requests",
        name="operator_request_proof",
        summary="Ask for proof of a payment, and hold a reserve meanwhile.",
        tag="Operator: cases",
        family=OPERATOR,
        body=NewProofRequest,
        reply=Proof,
        status=201,
        errors=(NotFound, TransactionNotPaid, ProofAlreadyRequested, InsufficientBalance),
        handler=Local(ask),
    ),
    Route(
        method="POST",
        path="/transactions/{id}/proof/approve",
        name="operator_approve_proof",
        summary="Approve proof, and release all or part of the reserve.",
        tag="Operator: cases",
        family=OPERATOR,
        body=Approval,
        reply=Proof,
        errors=(NotFound, ProofNotRequested, ProofNotSubmitted, ProofAlreadyApproved),
        handler=Local(approve),
    ),
    Route(
        method="POST",
        path="/transactions/{id}/proof/reject",
        name="operator_reject_proof",
        summary="Reject proof; the merchant may send better.",
        tag="Operator: cases",
        family=OPERATOR,
        body=Rejection,
        reply=Proof,
        errors=(NotFound, ProofNotRequested, ProofNotSubmitted, ProofAlreadyApproved),
        handler=Local(reject),
    ),
)
