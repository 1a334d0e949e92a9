"""Every code of the documents is declared once, with its status; the envelope is the specified one."""

from __future__ import annotations

import json

import pytest

import bursar.app  # noqa: F401 - so that every feature has declared its errors
from bursar.core.errors import ApiError
from bursar.http.reply import failed

# The tables of documents 1 and 2 and of the decisions on conventions.
DOCUMENTED = {
    400: "bad_request missing_idempotency_key malformed_signature invalid_timestamp",
    401: "unauthenticated missing_credentials invalid_credentials account_key_mismatch invalid_signature",
    402: "trade_subscription_required",
    403: "forbidden account_not_allowed account_inactive connect_not_enabled account_banned payments_paused "
         "payouts_paused kyc_required https_required live_only platform_safety_limit",
    404: "endpoint_not_found not_found account_not_found bank_account_not_found payout_not_found location_not_found "
         "reader_not_found resource_not_found unknown_trade_resource resource_unavailable customer_not_found "
         "invoice_not_found contract_not_found",
    405: "resource_read_only use_products method_not_allowed",
    409: "idempotency_conflict duplicate_request connected_account_duplicate duplicate_resource "
         "duplicate_bank_account reader_already_registered billing_review_required",
    413: "payload_too_large file_too_large",
    414: "uri_too_long",
    415: "unsupported_media_type",
    422: "validation_error invalid_account_id invalid_idempotency_key connected_account_create_failed "
         "currency_not_supported invalid_connect_application_fee not_cancelable not_refundable invalid_refund_amount "
         "refund_exceeds_transaction insufficient_balance provider_reference_missing cancel_failed refund_failed "
         "bank_account_required bank_account_disabled bank_account_create_failed location_required "
         "location_bridge_missing invalid_registration_code reader_limit_reached reader_register_failed "
         "terminal_payment_failed reader_cancel_failed empty_payload unknown_fields invalid_cursor",
    429: "rate_limited",
    500: "internal_error resource_scope_misconfigured provider_not_configured",
    503: "trade_schema_missing service_unavailable",
}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "code"), [(status, code) for status, codes in DOCUMENTED.items() for code in codes.split()]
)
def test_declared_with_its_status(status: int, code: str) -> None:
    assert ApiError.registry[code].declared_status == status


@pytest.mark.parametrize("code", sorted(ApiError.registry))
def test_envelope_and_message(code: str) -> None:
    kind = ApiError.registry[code]
    reply = failed(kind())
    assert json.loads(reply.body) == {
        "success": False,
        "error": {"code": code, "message": kind.message, "details": None},
    }
    assert reply.status == kind.declared_status
    assert kind.message
    assert kind.message.endswith(".")


def test_a_code_is_declared_once() -> None:
    with pytest.raises(TypeError):
        type("Again", (ApiError,), {}, code="bad_request", status=400)


def test_details_headers_and_another_status() -> None:
    error = ApiError.registry["https_required"]("Only so.", details={"a": [1]}, headers={"X": "y"}, status=400)
    reply = failed(error)
    assert (reply.status, reply.headers) == (400, {"X": "y"})
    assert json.loads(reply.body)["error"] == {"code": "https_required", "message": "Only so.", "details": {"a": [1]}}
