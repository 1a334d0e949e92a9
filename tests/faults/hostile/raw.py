"""Raw bytes over sockets: every case of the framing corpus, in an order of the seed's, twenty connections at a time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from dataclasses import dataclass

from tests.faults.hostile import framing
from tests.faults.hostile.framing import Case
from tests.faults.report import Report
from tests.support.house import House, house

ROUNDS = {"push": 1, "full": 5, "soak": 20}
IDLE = {"push": 500, "full": 500, "soak": 2000}
ANSWERED_WITHIN_S = 5.0
CUT_WITHIN_S = 20.0
SILENCE_S = 0.5
P99_S = 0.5


@dataclass(frozen=True)
class Heard:
    statuses: list[int]
    closed: bool
    took_s: float


async def run(tier: str, seed: int) -> Report:
    report = Report("raw sockets")
    order = random.Random(seed)
    async with house() as serving:
        for _ in range(ROUNDS[tier]):
            refused = [*framing.REFUSED]
            order.shuffle(refused)
            for start in range(0, len(refused), 20):
                await asyncio.gather(*(_refused(serving, case, report) for case in refused[start : start + 20]))
            for case in framing.SERVED:
                await _served(serving, case, report)
        await asyncio.gather(*(_held(serving, case, report) for case in framing.HELD))
        await _crowd(serving, IDLE[tier], report)
        log = serving.log()
    report.expect('"level":"error"' not in log and "Traceback" not in log, "the log tells of an error")
    return report


async def _refused(serving: House, case: Case, report: Report) -> None:
    heard = await talk(serving.port, case, ANSWERED_WITHIN_S)
    report.count("refused")
    good = len(heard.statuses) == 1 and 400 <= heard.statuses[0] < 500 and heard.closed
    report.expect(good, f"{case.name}: {heard}")


async def _served(serving: House, case: Case, report: Report) -> None:
    """Proper requests need not end their connection; one that is answered too often would show in the silence."""
    heard = await talk(serving.port, case, ANSWERED_WITHIN_S, enough=case.replies)
    report.count("odd but proper")
    fits = all((status < 400) == case.good for status in heard.statuses)
    report.expect(len(heard.statuses) == case.replies and fits, f"{case.name}: {heard}")
    report.expect(all(status < 500 for status in heard.statuses), f"{case.name}: {heard}")


async def _held(serving: House, case: Case, report: Report) -> None:
    heard = await talk(serving.port, case, CUT_WITHIN_S)
    report.count("unfinished")
    last = heard.statuses[-1:] in ([], [408])
    report.expect(heard.closed and last and len(heard.statuses) == case.replies, f"{case.name}: {heard}")


async def _crowd(serving: House, many: int, report: Report) -> None:
    """Heads that drip on many connections, while somebody else is answered as ever; all of them are cut off."""
    merchant = await serving.open_account()
    half = [await asyncio.open_connection("127.0.0.1", serving.port) for _ in range(many)]
    for _, writer in half:
        writer.write(b"GET /v2/account HTTP/1.1\r\nHost: x\r\nA:")
    times = []
    until = time.monotonic() + 5
    while time.monotonic() < until:
        for _, writer in half:
            with contextlib.suppress(OSError):
                writer.write(b" b")
        reply = await serving.get(merchant, "/account")
        report.expect(reply.status == 200, f"beside {many} slow connections: {reply.status}")
        times.append(reply.took_s)
        await asyncio.sleep(0.02)
    times.sort()
    worst = times[int(len(times) * 0.99)]
    report.count("slow connections at once", many)
    report.notes.append(f"beside {many} slow connections p99 is {worst * 1000:.0f} ms")
    report.expect(worst < P99_S, f"beside {many} slow connections p99 is {worst * 1000:.0f} ms")
    try:
        async with asyncio.timeout(CUT_WITHIN_S):
            for reader, _ in half:
                with contextlib.suppress(OSError):
                    await reader.read()
    except TimeoutError:
        report.broke("slow connections were not cut off")
    for _, writer in half:
        writer.close()


async def talk(port: int, case: Case, bound_s: float, *, enough: int | None = None) -> Heard:
    """Sends the case and listens until the service closes, the time is up, or it is silent after enough replies."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    started = time.monotonic()
    feeding = asyncio.create_task(_feed(writer, case))
    received, closed = b"", False
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(bound_s) as bound:
            try:
                while part := await reader.read(65536):
                    received += part
                    if enough is not None and len(_statuses(received)) >= enough:
                        bound.reschedule(asyncio.get_running_loop().time() + SILENCE_S)
            except ConnectionError:
                pass  # closed before it had read all of a long request
            closed = True
    feeding.cancel()
    writer.close()
    return Heard(_statuses(received), closed, round(time.monotonic() - started, 2))


def _statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


async def _feed(writer: asyncio.StreamWriter, case: Case) -> None:
    with contextlib.suppress(OSError):
        if not case.drip_s:
            writer.write(case.sent)
            await writer.drain()
            return
        for position in range(len(case.sent)):
            writer.write(case.sent[position : position + 1])
            await writer.drain()
            await asyncio.sleep(case.drip_s)
