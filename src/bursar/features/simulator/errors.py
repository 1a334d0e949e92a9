"""What can be wrong with playing the customer."""

from __future__ import annotations

from bursar.core.errors import ApiError


class CheckoutClosed(ApiError, code="checkout_closed", status=409):
    """The checkout can no longer be paid."""
