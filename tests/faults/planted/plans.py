"""Parts of the suite in their shortest form: enough to notice what is planted, and whole and green without it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.faults import crash, kills
from tests.faults.hostile import canaries, strangers
from tests.faults.races import twins, wallets
from tests.faults.report import Report

Plan = Callable[[int], Awaitable[Report]]

PLANS: dict[str, Plan] = {
    "load": lambda seed: kills.run(seed, kills.Plan(8, shops=11), name="load"),
    "database kills": lambda seed: kills.run(seed, kills.Plan(16, database=5, customers=12), name="database kills"),
    "cuts": lambda seed: kills.run(seed, kills.Plan(16, cuts=500, customers=12), name="cuts"),
    "crash, unanswered refund": lambda seed: crash.run(seed, seconds=5, only="refund, unanswered"),
    "crash, late capture": lambda seed: crash.run(seed, seconds=5, only="late capture"),
    "twins": lambda seed: twins.run("brief", seed),
    "wallets": lambda seed: wallets.run("brief", seed),
    "strangers": lambda seed: strangers.run("push", seed),
    "canaries": lambda seed: canaries.run("push", seed),
}
