"""`make bench-peers`: peers from the package registries beside the service, on the same machine in the same run."""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import uvloop
from rich.table import Table

from bench import load, machine, report, requests
from bench.ledger import cases as ledger
from bench.ledger.wallets import HOT_PLATFORM, PLATFORMS, SHOPS, open_wallets
from bench.load import Result, result_of
from bench.payments import CONNECTIONS, Creating, newest
from bench.peers.install import Node, NotInstalled, Python
from bench.report import Case, console
from bench.stage import Stage, stage

LOCALSTRIPE = Python("localstripe", ("localstripe==1.15.10",))
HORDAK = Python("django-hordak", ("django-hordak==2.0.0", "psycopg[binary]"))
MOCK = Node("stripe-stateful-mock", ("stripe-stateful-mock@0.0.16",))

HERE = Path(__file__).parent
Measurements = dict[str, Callable[[], Result]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of one measurement")
    parser.add_argument("--rounds", type=int, default=3, help="times each measurement is taken, interleaved")
    options = parser.parse_args()
    if note := machine.warning(machine.busy_cores()):
        console.print(note, style="bold red")
    missing: dict[str, str] = {}
    with stage() as staged, ExitStack() as running:
        uvloop.run(open_wallets(staged, [*SHOPS, *PLATFORMS, HOT_PLATFORM]))
        measurements = _ours(staged, options.seconds)
        for peer in (_localstripe, _mock, partial(_hordak, staged)):
            try:
                measurements |= running.enter_context(peer(options.seconds))
            except NotInstalled as error:
                name, why = error.args
                missing[name] = why
        found = report.rounds(measurements, options.rounds)
    cases = [Case(name, results) for name, results in found.items()]
    _show(cases, missing)
    _save(cases, missing)


# The service ---------------------------------------------------------------------------------------------------


def _ours(staged: Stage, seconds: float) -> Measurements:
    app = staged.serve()
    creating = Creating.on(staged, app)
    creating.load(CONNECTIONS, 0.5)
    secret = creating.merchant["secret_key"]
    ids = asyncio.run(newest(staged, creating.merchant["merchant_id"]))
    reads = [requests.get(f"/v2/hosted-payments/{number}", secret) for number in ids]
    return {
        "Bursar, create": partial(creating.load, CONNECTIONS, seconds),
        "Bursar, create, 1 connection": partial(creating.load, 1, seconds),
        "Bursar, read": lambda: load.run(reads, app.port, CONNECTIONS, seconds, repeat=True),
        "Bursar, post, spread": partial(ledger.ours, staged, seconds, hot=False, grouped=True),
        "Bursar, post, hot": partial(ledger.ours, staged, seconds, hot=True, grouped=True),
    }


# The peers -----------------------------------------------------------------------------------------------------


def _installed(peer: Python | Node) -> Path:
    console.print(f"{peer.name} …")
    try:
        return peer.install()
    except NotInstalled as error:
        raise NotInstalled(peer.name, str(error)) from None


@contextmanager
def _localstripe(seconds: float) -> Iterator[Measurements]:
    """Stripe's API in memory; it writes its whole store to a file after every change, so each round starts empty."""
    python = _installed(LOCALSTRIPE)
    port = _free_port()
    kept = python.parents[1] / "store"
    with _running([str(python), str(HERE / "localstripe_server.py"), str(port), str(kept)], port):
        form = b"amount=1000&currency=gbp&payment_method_types[0]=card&metadata[order]=1"

        def create(connections: int) -> Result:
            _call(port, "DELETE", "/_config/data")
            posts = [_stripe(b"POST", b"/v1/payment_intents", form, number) for number in range(int(3000 * seconds))]
            return _ok(load.run(posts, port, connections, seconds))

        def read() -> Result:
            _call(port, "DELETE", "/_config/data")
            made = json.loads(_call(port, "POST", "/v1/payment_intents", form))
            get = _stripe(b"GET", b"/v1/payment_intents/" + made["id"].encode())
            return _ok(load.run([get], port, CONNECTIONS, seconds))

        yield {
            "localstripe, create a PaymentIntent": lambda: create(CONNECTIONS),
            "localstripe, create, 1 connection": lambda: create(1),
            "localstripe, read": read,
        }


@contextmanager
def _mock(seconds: float) -> Iterator[Measurements]:
    """Stripe's API in memory; nothing is ever written down."""
    place = _installed(MOCK)
    port = _free_port()
    program = f'require("stripe-stateful-mock").createExpressApp().listen({port}, "127.0.0.1")'
    with _running(["node", "-e", program], port, cwd=place):

        def create(connections: int) -> Result:
            form = b"amount=1000&currency=gbp&source=tok_visa&metadata[order]=1"
            posts = [_stripe(b"POST", b"/v1/charges", form, number) for number in range(int(10_000 * seconds))]
            return _ok(load.run(posts, port, connections, seconds))

        yield {
            "stripe-stateful-mock, create a charge": lambda: create(CONNECTIONS),
            "stripe-stateful-mock, create, 1 connection": lambda: create(1),
        }


@contextmanager
def _hordak(staged: Stage, seconds: float) -> Iterator[Measurements]:
    """A ledger for Django, on the same server; it keeps no balances."""
    python = _installed(HORDAK)
    owner = urlsplit(staged.urls.owner)
    asyncio.run(_make_database(staged))
    where = (parse_qs(owner.query)["host"][0], "hordak", owner.username or "", owner.password or "")

    def drive(what: str, place: str) -> str:
        command = [str(python), str(HERE / "hordak_posts.py"), *where, what, str(seconds), place]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 240).stdout

    def post(clients: int, place: str) -> Result:
        return result_of(times := json.loads(drive(str(clients), place)), max(seconds, sum(times) / clients))

    drive("setup", "spread")
    yield {
        "django-hordak, post, spread": lambda: post(CONNECTIONS, "spread"),
        "django-hordak, post, hot": lambda: post(CONNECTIONS, "hot"),
    }


async def _make_database(staged: Stage) -> None:
    connection = await staged.connect(staged.urls.admin)
    await connection.execute("CREATE DATABASE hordak OWNER bursar_owner")
    await connection.close()


# Driving them --------------------------------------------------------------------------------------------------


def _stripe(method: bytes, path: bytes, form: bytes = b"", number: int = 0) -> bytes:
    key = b"Idempotency-Key: bench-%d-%d\r\n" % (time.monotonic_ns(), number) if form else b""
    return (
        b"%b %b HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer sk_test_12345\r\n%b"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%b"
    ) % (method, path, key, len(form), form)


def _ok(result: Result) -> Result:
    assert set(result.statuses) <= {"200", "201"}, result.statuses
    return result


def _call(port: int, method: str, path: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        data=body,
        method=method,
        headers={"Authorization": "Bearer sk_test_12345"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        answer: bytes = reply.read()
    return answer


@contextmanager
def _running(command: list[str], port: int, cwd: Path | None = None) -> Iterator[None]:
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > until or process.poll() is not None:
                    raise TimeoutError(f"{command[0]} did not start") from None
                time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(20)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


# Telling -------------------------------------------------------------------------------------------------------

# What of ours each of theirs stands beside.
BESIDE = {
    "create, 1 connection": "Bursar, create, 1 connection",
    "create": "Bursar, create",
    "read": "Bursar, read",
    "post, spread": "Bursar, post, spread",
    "post, hot": "Bursar, post, hot",
}


def _times_ours(case: Case, by_name: dict[str, Case]) -> float | None:
    peer, _, what = case.name.partition(", ")
    beside = next((ours for start, ours in BESIDE.items() if what.startswith(start)), None)
    if peer == "Bursar" or beside is None:
        return None
    return by_name[beside].best.per_second / case.best.per_second


def _show(cases: list[Case], missing: dict[str, str]) -> None:
    by_name = {case.name: case for case in cases}
    table = Table("peer, operation", "best/s", "median/s", "spread", "p50 ms", "p99 ms", "Bursar / peer")
    for case in cases:
        times = _times_ours(case, by_name)
        table.add_row(
            case.name, f"{case.best.per_second:,.0f}", f"{case.median_rate:,.0f}", f"{case.spread:.0%}",
            f"{case.best.p50_ms:.2f}", f"{case.best.p99_ms:.2f}", "" if times is None else f"{times:.1f}",
        )  # fmt: skip
    console.print(table)
    for name, why in missing.items():
        console.print(f"{name} could not be installed: {why}")


def _save(cases: list[Case], missing: dict[str, str]) -> None:
    by_name = {case.name: case for case in cases}
    found = {
        case.name: {
            "best_per_second": round(case.best.per_second, 1),
            "median_per_second": round(case.median_rate, 1),
            "spread": round(case.spread, 3),
            "p50_ms": round(case.best.p50_ms, 3),
            "p99_ms": round(case.best.p99_ms, 3),
            "bursar_over_peer": _times_ours(case, by_name),
        }
        for case in cases
    }
    report.save({"machine": machine.facts(), "peers": found, "missing": missing}, report.RESULTS / "peers.json")


if __name__ == "__main__":
    main()
