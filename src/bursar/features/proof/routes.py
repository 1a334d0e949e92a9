"""/transactions/{id}/proof: read, send."""

from __future__ import annotations

from bursar.core.errors import FileTooLarge, NotFound
from bursar.features.proof import service
from bursar.features.proof.errors import (
    InvoiceFileRequired,
    ProofAlreadyApproved,
    ProofNotRequested,
    ProofRequestNotFound,
)
from bursar.features.proof.schemas import Proof, SubmittedProof
from bursar.features.uploads.errors import UnsupportedFileType
from bursar.http.caller import Gate
from bursar.http.context import Ctx
from bursar.http.routes import Local, Read, Route


async def show_proof(ctx: Ctx, _: None) -> Proof:
    return await service.show(ctx)


async def submit_proof(ctx: Ctx, sent: SubmittedProof) -> Proof:
    return await service.submit(ctx, sent)


ROUTES = (
    Route(
        method="GET",
        path="/transactions/{id}/proof",
        name="show_proof",
        summary="What proof is asked for, what was sent, and the reserve.",
        tag="Transactions",
        scope="transactions:read",
        reply=Proof,
        errors=(NotFound, ProofRequestNotFound),
        handler=Read(show_proof),
    ),
    Route(
        method="POST",
        path="/transactions/{id}/proof",
        name="submit_proof",
        summary="Send proof of a sale.",
        tag="Transactions",
        scope="transactions:write",
        gate=Gate.WRITE,
        body=SubmittedProof,
        uploads=True,
        reply=Proof,
        errors=(
            NotFound,
            ProofNotRequested,
            ProofAlreadyApproved,
            InvoiceFileRequired,
            UnsupportedFileType,
            FileTooLarge,
        ),
        handler=Local(submit_proof),
    ),
)
