"""What can be wrong with proof."""

from __future__ import annotations

from bursar.core.errors import ApiError


class ProofRequestNotFound(ApiError, code="proof_request_not_found", status=404):
    """No proof was requested for this transaction."""


class ProofNotRequested(ApiError, code="proof_not_requested", status=409):
    """No proof was requested for this transaction."""


class ProofAlreadyRequested(ApiError, code="proof_already_requested", status=409):
    """Proof was requested for this transaction, and is not decided yet."""


class ProofAlreadyApproved(ApiError, code="proof_already_approved", status=409):
    """The proof of this transaction was approved."""


class ProofNotSubmitted(ApiError, code="proof_not_submitted", status=409):
    """There is no submitted proof to decide on."""


class InvoiceFileRequired(ApiError, code="invoice_file_required", status=422):
    """An invoice file was asked for."""


class TransactionNotPaid(ApiError, code="transaction_not_paid", status=422):
    """Proof can be asked for only of a payment that was made."""
