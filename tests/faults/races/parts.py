"""The parts of this half of the suite, by name."""

from __future__ import annotations

from tests.faults.races import hot_wallet, outcomes, twins, wallets
from tests.faults.running import Part

PARTS: dict[str, Part] = {
    "twins": twins.run,
    "wallets": wallets.run,
    "outcomes": outcomes.run,
    "hot_wallet": hot_wallet.run,
}
