"""Every error the public API can answer with, one class each: code, status and message.

The docstring of a class is its message. A feature with codes of its own that no document table names
keeps them in its `errors.py`, as subclasses of `ApiError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class ApiError(Exception):
    """The base of every declared error; never raised itself."""

    code: ClassVar[str] = ""
    message: ClassVar[str] = ""
    declared_status: ClassVar[int] = 0
    registry: ClassVar[dict[str, type[ApiError]]] = {}

    def __init_subclass__(cls, *, code: str, status: int) -> None:
        if code in ApiError.registry:
            raise TypeError(f"error code {code} is declared twice")
        cls.code, cls.declared_status = code, status
        cls.message = " ".join((cls.__doc__ or "").split())
        ApiError.registry[code] = cls

    def __init__(
        self,
        message: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        status: int | None = None,
    ) -> None:
        self.text = message or self.message
        super().__init__(self.text)
        self.details = details
        self.headers = dict(headers or {})
        # A family may give one code another status (subscriptions answer 400 where others answer 403 or 422).
        self.status = status or self.declared_status


# The request itself


class BadRequest(ApiError, code="bad_request", status=400):
    """The request is malformed."""


class MissingIdempotencyKey(ApiError, code="missing_idempotency_key", status=400):
    """This write needs an Idempotency-Key header."""


class PayloadTooLarge(ApiError, code="payload_too_large", status=413):
    """The request body is too large or nested too deeply."""


class FileTooLarge(ApiError, code="file_too_large", status=413):
    """The file is too large."""


class UriTooLong(ApiError, code="uri_too_long", status=414):
    """The request address is too long."""


class UnsupportedMediaType(ApiError, code="unsupported_media_type", status=415):
    """The content type is not accepted here."""


class ValidationFailed(ApiError, code="validation_error", status=422):
    """Some fields are invalid."""


class UnknownFields(ApiError, code="unknown_fields", status=422):
    """The request carries fields that this endpoint does not accept."""


class InvalidIdempotencyKey(ApiError, code="invalid_idempotency_key", status=422):
    """The Idempotency-Key has an invalid format."""


class InvalidCursor(ApiError, code="invalid_cursor", status=422):
    """The cursor is not one that this list gave out."""


class RateLimited(ApiError, code="rate_limited", status=429):
    """Too many requests. Wait before trying again."""


# Who is calling


class MissingCredentials(ApiError, code="missing_credentials", status=401):
    """No secret key was supplied."""


class Unauthenticated(ApiError, code="unauthenticated", status=401):
    """The API key is missing or invalid."""


class InvalidCredentials(ApiError, code="invalid_credentials", status=401):
    """The secret key was not recognised."""


class AccountKeyMismatch(ApiError, code="account_key_mismatch", status=401):
    """The public key, client key or account id does not match the authenticated account."""


class InvalidSignature(ApiError, code="invalid_signature", status=401):
    """The request signature is missing, malformed or wrong."""


class MalformedSignature(ApiError, code="malformed_signature", status=400):
    """The signature headers are missing or malformed."""


class InvalidTimestamp(ApiError, code="invalid_timestamp", status=400):
    """The signature timestamp is missing, malformed or more than five minutes off."""


class HttpsRequired(ApiError, code="https_required", status=403):
    """This endpoint accepts HTTPS requests only."""


class LiveOnly(ApiError, code="live_only", status=403):
    """This endpoint is live only and has no sandbox."""


# What the account may do


class Forbidden(ApiError, code="forbidden", status=403):
    """This account or key cannot access the resource."""


class AccountNotAllowed(ApiError, code="account_not_allowed", status=403):
    """The authenticated account cannot act on the supplied account."""


class AccountInactive(ApiError, code="account_inactive", status=403):
    """The merchant account is not active."""


class ConnectNotEnabled(ApiError, code="connect_not_enabled", status=403):
    """Platform access is not enabled for this account."""


class AccountBanned(ApiError, code="account_banned", status=403):
    """The account cannot process this operation."""


class PaymentsPaused(ApiError, code="payments_paused", status=403):
    """The account cannot accept payments at the moment."""


class PayoutsPaused(ApiError, code="payouts_paused", status=403):
    """Transfers are paused for this account."""


class KycRequired(ApiError, code="kyc_required", status=403):
    """Identity verification is needed before transfers."""


class PlatformSafetyLimit(ApiError, code="platform_safety_limit", status=403):
    """The platform has reached its safety limit; restore its balance first."""


class AccountNotFound(ApiError, code="account_not_found", status=404):
    """No connected account with this id belongs to the platform."""


class InvalidAccountId(ApiError, code="invalid_account_id", status=422):
    """Use the full account id, as shown when the account was created."""


# Routes and objects


class EndpointNotFound(ApiError, code="endpoint_not_found", status=404):
    """There is no such endpoint."""


class NotFound(ApiError, code="not_found", status=404):
    """There is no such object."""


class ResourceNotFound(ApiError, code="resource_not_found", status=404):
    """There is no such resource."""


class BankAccountNotFound(ApiError, code="bank_account_not_found", status=404):
    """There is no such bank account."""


class PayoutNotFound(ApiError, code="payout_not_found", status=404):
    """There is no such payout."""


class LocationNotFound(ApiError, code="location_not_found", status=404):
    """There is no such location."""


class ReaderNotFound(ApiError, code="reader_not_found", status=404):
    """There is no such reader."""


class CustomerNotFound(ApiError, code="customer_not_found", status=404):
    """There is no such customer."""


class InvoiceNotFound(ApiError, code="invoice_not_found", status=404):
    """There is no such invoice."""


class ContractNotFound(ApiError, code="contract_not_found", status=404):
    """There is no such contract."""


class UnknownTradeResource(ApiError, code="unknown_trade_resource", status=404):
    """There is no trade resource of this name."""


class ResourceUnavailable(ApiError, code="resource_unavailable", status=404):
    """This resource is not available here."""


class MethodNotAllowed(ApiError, code="method_not_allowed", status=405):
    """This method is not allowed here."""


class ResourceReadOnly(ApiError, code="resource_read_only", status=405):
    """This resource is read-only."""


class UseProducts(ApiError, code="use_products", status=405):
    """Inventory is created through products; create a product first."""


# Conflicts


class IdempotencyConflict(ApiError, code="idempotency_conflict", status=409):
    """This Idempotency-Key was already used for a different request."""


class DuplicateRequest(ApiError, code="duplicate_request", status=409):
    """A request with this Idempotency-Key was already received."""


class BillingReviewRequired(ApiError, code="billing_review_required", status=409):
    """The first request with this key was never confirmed; it needs a billing review before anything is resent."""


class ConnectedAccountDuplicate(ApiError, code="connected_account_duplicate", status=409):
    """The e-mail address or username is already in use."""


class DuplicateResource(ApiError, code="duplicate_resource", status=409):
    """An object with the same unique fields already exists."""


class DuplicateBankAccount(ApiError, code="duplicate_bank_account", status=409):
    """This bank account is already linked."""


class ReaderAlreadyRegistered(ApiError, code="reader_already_registered", status=409):
    """The location already has a linked reader."""


# Business rules


class TradeSubscriptionRequired(ApiError, code="trade_subscription_required", status=402):
    """The trade plan is not active."""


class ConnectedAccountCreateFailed(ApiError, code="connected_account_create_failed", status=422):
    """The connected account could not be created."""


class CurrencyNotSupported(ApiError, code="currency_not_supported", status=422):
    """This currency is not enabled."""


class InvalidConnectApplicationFee(ApiError, code="invalid_connect_application_fee", status=422):
    """The application fee is invalid or above the amount."""


class NotCancelable(ApiError, code="not_cancelable", status=422):
    """The transaction can no longer be cancelled."""


class NotRefundable(ApiError, code="not_refundable", status=422):
    """The transaction is not eligible for a refund."""


class InvalidRefundAmount(ApiError, code="invalid_refund_amount", status=422):
    """The refund amount must be above zero."""


class RefundExceedsTransaction(ApiError, code="refund_exceeds_transaction", status=422):
    """The refund is above what remains of the original amount."""


class InsufficientBalance(ApiError, code="insufficient_balance", status=422):
    """The wallet balance is too low."""


class ProviderReferenceMissing(ApiError, code="provider_reference_missing", status=422):
    """The payment has no processor reference yet."""


class CancelFailed(ApiError, code="cancel_failed", status=422):
    """The cancellation could not be processed."""


class RefundFailed(ApiError, code="refund_failed", status=422):
    """The refund could not be processed."""


class BankAccountRequired(ApiError, code="bank_account_required", status=422):
    """A bank account is needed."""


class BankAccountDisabled(ApiError, code="bank_account_disabled", status=422):
    """The bank account is disabled."""


class BankAccountCreateFailed(ApiError, code="bank_account_create_failed", status=422):
    """The bank account could not be added."""


class LocationRequired(ApiError, code="location_required", status=422):
    """A terminal location is needed."""


class LocationBridgeMissing(ApiError, code="location_bridge_missing", status=422):
    """The location is not ready for terminals yet."""


class InvalidRegistrationCode(ApiError, code="invalid_registration_code", status=422):
    """The registration code is not valid."""


class ReaderLimitReached(ApiError, code="reader_limit_reached", status=422):
    """The account has reached its number of readers."""


class ReaderRegisterFailed(ApiError, code="reader_register_failed", status=422):
    """The reader could not be registered."""


class TerminalPaymentFailed(ApiError, code="terminal_payment_failed", status=422):
    """The terminal could not take the payment."""


class ReaderCancelFailed(ApiError, code="reader_cancel_failed", status=422):
    """The reader's action could not be cancelled."""


class EmptyPayload(ApiError, code="empty_payload", status=422):
    """The update has no writable field."""


# The service itself


class InternalError(ApiError, code="internal_error", status=500):
    """Something went wrong on our side. Quote the request id when you contact us."""


class ResourceScopeMisconfigured(ApiError, code="resource_scope_misconfigured", status=500):
    """The resource is not safely bound to an account here."""


class ProviderNotConfigured(ApiError, code="provider_not_configured", status=500):
    """No payment processor is configured."""


class ServiceUnavailable(ApiError, code="service_unavailable", status=503):
    """The service is busy or restarting; the outcome is not confirmed. Retry with the same Idempotency-Key."""


class TradeSchemaMissing(ApiError, code="trade_schema_missing", status=503):
    """The trade tables are not installed."""
