"""A disk whose every flush takes 1 ms longer: creates and the hot ledger on it, beside the same without.

Two servers and two instances at the same time; only the one that is measured has work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import uvloop

from bench import checks, flush, report
from bench.ledger import cases as ledger
from bench.ledger.wallets import HOT_PLATFORM, SHOPS, open_wallets
from bench.load import Result
from bench.payments import CONNECTIONS, Creating
from bench.report import Case, Part
from bench.stage import Stage, stage

RATIOS = {"create_slow_flush": "create", "hot_ledger_slow_flush": "ledger, hot"}


def run(seconds: float, times: int) -> Part:
    title = f"Flushes {flush.SLOWER_US / 1000:g} ms slower"
    if why := flush.unavailable():
        return Part(title, missing=dict.fromkeys(RATIOS, why))
    with stage() as usual, stage(slow_flush=True) as slow:
        sides = {"": _prepared(usual), ", slow flush": _prepared(slow)}
        measurements: dict[str, Callable[[], Result]] = {}
        for name, creating in sides.items():
            measurements[f"create{name}"] = partial(creating.load, CONNECTIONS, seconds)
        for name, creating in sides.items():
            hot = partial(ledger.ours, creating.stage, seconds, hot=True, grouped=True)
            measurements[f"ledger, hot{name}"] = hot
        found = report.rounds(measurements, times)
        assert flush.is_slow(slow.postmaster), "the slow flush is not in force"
        assert not flush.is_slow(usual.postmaster)
        checked: dict[str, str] = {}
        for name, creating in sides.items():
            checked |= {f"slow disk{name}, {what}": said for what, said in creating.check().items()}
            checked[f"slow disk{name}, books"] = asyncio.run(checks.books(creating.stage))
    against = {f"{case}, slow flush": {ratio: case} for ratio, case in RATIOS.items()}
    return Part(title, [Case(name, rounds, against.get(name, {})) for name, rounds in found.items()], checks=checked)


def _prepared(staged: Stage) -> Creating:
    uvloop.run(open_wallets(staged, [*SHOPS, HOT_PLATFORM]))
    return Creating.on(staged, staged.serve())
