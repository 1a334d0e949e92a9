"""Three times as many signed creates as can be done: whoever is answered is answered well or told to come back, soon;
what could be done before is still done; and once it is over, all is as it was.
"""

from __future__ import annotations

import asyncio
import time

from bench import load

from tests.faults.hostile import flood
from tests.faults.report import Report
from tests.support.house import House, house
from tests.support.service import Party, new_key
from tests.support.till import order
from tests.support.wire import signed

SECONDS = {"push": 6.0, "full": 60.0, "soak": 300.0}
THROTTLED_S = {"push": 6.0, "full": 20.0, "soak": 60.0}
PEAK_S = {"push": 4.0, "full": 10.0, "soak": 10.0}
CLIENTS = 32
TIMES = 3
ANSWERED_S = 1.0
RECOVERED_S = 10.0
# Of what was done at peak. A push shares its two cores with whatever else runs, and with the flood itself.
KEPT = {"push": 0.5, "full": 0.8, "soak": 0.8}
GOOD_OR_LATER = {"201", "429", "503"}


async def run(tier: str, seed: int) -> Report:
    del seed  # the rate is what the machine makes it
    report = Report("overload")
    async with house() as serving:
        merchant = await serving.open_account()
        peak, p99 = await _peak(serving, merchant, PEAK_S[tier])
        report.notes.append(f"peak {peak:.0f}/s, p99 {p99 * 1000:.0f} ms")
        await _flooded(serving, [merchant], peak, p99, tier, report)
        report.expect(await serving.audit() == [], "the audit finds fault with the books")
    async with house(global_limits="on") as serving:
        merchants = [await serving.open_account() for _ in range(4)]
        await _flooded(serving, merchants, peak, p99, tier, report, throttled=True)
    return report


def _creates(merchants: list[Party], count: int) -> list[bytes]:
    word = new_key()
    return [
        signed(merchants[n % len(merchants)].secret_key, "POST", "/v2/hosted-payments", order(f"{word}-{n}"))
        for n in range(count)
    ]


async def _peak(serving: House, merchant: Party, seconds: float) -> tuple[float, float]:
    """What the service does when it is asked as fast as it answers: the rate, and the 99th percentile of the times."""
    creates = await asyncio.to_thread(_creates, [merchant], int(5000 * seconds))
    found = await asyncio.to_thread(load.run, creates, serving.port, CLIENTS, seconds)
    assert found.statuses.keys() == {"201"}, found
    return found.per_second, found.p99_ms / 1000


async def _flooded(
    serving: House, merchants: list[Party], peak: float, p99: float, tier: str, report: Report,
    *, throttled: bool = False,
) -> None:  # fmt: skip
    per_second, seconds = TIMES * peak, (THROTTLED_S if throttled else SECONDS)[tier]
    creates = await asyncio.to_thread(_creates, merchants, int(per_second * seconds))
    done = await flood.run(creates, serving.port, per_second, seconds)
    ended = time.monotonic()
    good, limited, shed = (done.counts.get(status, 0) for status in ("201", "429", "503"))
    report.count("requests", len(creates))
    report.count("good", good)
    report.count("429", limited)
    report.count("503", shed)
    how = "throttles on" if throttled else "throttles off"
    report.notes.append(
        f"{how}: {per_second:.0f}/s asked, {good / seconds:.0f}/s good, {limited} × 429, {shed} × 503, "
        f"p99 of good {done.p99_s.get('201', 0) * 1000:.0f} ms, slowest answer {done.slowest_s * 1000:.0f} ms, "
        f"{done.lost} lost, {done.unsent} not sent"
    )
    report.expect(done.counts.keys() <= GOOD_OR_LATER, f"{how}: answers {done.counts}")
    report.expect(done.lost + done.unsent == 0, f"{how}: {done.lost} + {done.unsent} requests were not answered")
    report.expect(done.slowest_s < ANSWERED_S, f"{how}: an answer took {done.slowest_s:.2f} s")
    if not throttled:
        kept = good / seconds / peak
        report.expect(kept >= KEPT[tier], f"{how}: only {kept:.0%} of the peak was kept")
    await _recovered(serving, merchants[0], p99, ended, report, how)


async def _recovered(serving: House, merchant: Party, p99: float, ended: float, report: Report, how: str) -> None:
    """The time until a second of ordinary use has answers as quick as before."""
    bound = max(2 * p99, 0.1)
    while time.monotonic() - ended < RECOVERED_S:
        times = []
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            [content] = _creates([merchant], 1)
            reply = await serving.wire.send(content)
            times.append(reply.took_s if reply.status == 201 else 9.9)
            await asyncio.sleep(0.02)
        if sorted(times)[int(len(times) * 0.99)] <= bound:
            report.notes.append(f"{how}: as before {time.monotonic() - ended:.1f} s after the flood")
            return
    report.broke(f"{how}: not as before {RECOVERED_S:.0f} s after the flood")
