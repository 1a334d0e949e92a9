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


def price(own: Mapping[str, Any], name: str) -> Decimal:
    """One price in force: the account's own, else the default."""
    return Decimal(str(own[name])).quantize(Decimal("0.01")) if name in own else DEFAULTS[name]


def effective(own: Mapping[str, Any]) -> MerchantPricing:
    """The prices in force: the account's own where it has any, the defaults elsewhere."""
    custom = any(name in own for name in DEFAULTS)
    return MerchantPricing(
        **{name: price(own, name) for name in DEFAULTS},
        status="custom" if custom else "default",
        help="Fees are a fixed amount plus a percentage of the payment, rounded half-up to the penny.",
    )
