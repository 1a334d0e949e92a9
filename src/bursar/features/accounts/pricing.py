"""What a merchant pays per transaction: the default price list, and an account's own prices over it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

DEFAULTS = {
    "api_fixed_fee": Decimal("0.20"),
    "api_percent_fee": Decimal("1.50"),
    "card_fixed_fee": Decimal("0.05"),
    "card_percent_fee": Decimal("1.40"),
    "keyed_fixed_fee": Decimal("0.25"),
    "keyed_percent_fee": Decimal("2.50"),
}


class MerchantPricing(msgspec.Struct):
    api_fixed_fee: Decimal
    api_percent_fee: Decimal
    card_fixed_fee: Decimal
    card_percent_fee: Decimal
    keyed_fixed_fee: Decimal
    keyed_percent_fee: Decimal
    status: str
    help: str


def effective(own: Mapping[str, Any]) -> MerchantPricing:
    """The prices in force: the account's own where it has any, the defaults elsewhere."""
    prices = {
        name: Decimal(str(own.get(name, default))).quantize(Decimal("0.01")) for name, default in DEFAULTS.items()
    }
    custom = any(name in own for name in DEFAULTS)
    return MerchantPricing(
        **prices,
        status="custom" if custom else "default",
        help="Fees are a fixed amount plus a percentage of the payment, rounded half-up to the penny.",
    )
