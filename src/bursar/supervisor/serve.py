"""The supervisor itself: everything is started in order, watched, and stopped in the opposite order."""

from __future__ import annotations

import asyncio
import http.client
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import structlog
from prometheus_client import multiprocess

from bursar import demo, logs
from bursar.cli.client import ClientError, OperatorClient
from bursar.settings import Settings
from bursar.supervisor import banner, database, directory, environment, lifeline, listen, secrets
from bursar.supervisor.children import Program, keep_running
from bursar.supervisor.errors import CannotServe
from bursar.supervisor.secrets import InstanceSecrets

READY_S = 60.0
LOOK_EVERY_S = 0.05

log = structlog.get_logger()


async def serve(settings: Settings, *, with_demo: bool) -> None:
    """The whole service until SIGINT, SIGTERM or SIGHUP; raises when it cannot start or go on."""
    began = time.monotonic()
    stop = _stop_signal()
    logs.configure(settings, "supervisor")
    if with_demo and not settings.is_test:
        raise CannotServe("the demo is for test instances; set BURSAR_ENV=test or leave out --demo")
    with directory.held(settings.data_dir):
        settings, sockets = listen.listeners(settings)
        simulator: list[socket.socket] = []
        if settings.is_test:
            settings, listener = listen.simulator_listener(settings)
            simulator.append(listener)
        own = secrets.load_or_make(settings)
        metrics_dir = _fresh(settings.data_dir / "metrics")
        async with database.prepared(settings) as ready:
            base = environment.common(os.environ, settings, metrics_dir)
            programs = [
                *_programs(settings, base, own, ready.service_url, [each.fileno() for each in sockets]),
                *(_simulator(base, own, ready.service_url, each.fileno()) for each in simulator),
            ]
            children = (keep_running(program, _forget_in(metrics_dir)) for program in programs)
            async with _running(ready.watch(), *children) as failure:
                coming_up = asyncio.create_task(_come_up(settings, own, with_demo=with_demo))
                if await _first(stop, failure, coming_up):
                    _say(
                        banner.Started(
                            settings=settings,
                            took_s=time.monotonic() - began,
                            embedded=ready.server is not None,
                            operator_key_file=own.operator_key_file,
                            new_operator_key=own.operator_key if own.operator_key_is_new else None,
                            demo=coming_up.result(),
                        )
                    )
                    await _first(stop, failure)
                for listener in (*sockets, *simulator):  # whoever calls from now on is refused at once
                    listener.close()
    log.info("supervisor.stopped")


def _stop_signal() -> asyncio.Future[None]:
    """Done when the process is told to stop."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(number, tell)
    return stop


def _programs(
    settings: Settings, base: dict[str, str], own: InstanceSecrets, service_url: str, sockets: Sequence[int]
) -> list[Program]:
    line = lifeline.hold()
    follow = ("--lifeline", str(line))
    listening = tuple(part for number in sockets for part in ("--fd", str(number)))
    api = Program(
        "API",
        ("api", *listening, *follow),
        (*sockets, line),
        environment.of_api(base, own, service_url),
    )
    worker = Program("worker", ("worker", *follow), (line,), environment.of_worker(base, own, service_url))
    return [api] * settings.api_processes + [worker]


def _simulator(base: dict[str, str], own: InstanceSecrets, service_url: str, listening: int) -> Program:
    line = lifeline.hold()
    arguments = ("simulator", "--fd", str(listening), "--lifeline", str(line))
    return Program("simulator", arguments, (listening, line), environment.of_simulator(base, own, service_url))


@asynccontextmanager
async def _running(*work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Future[None]]:
    """Runs the work beside the block and ends it afterwards. What is yielded fails as soon as any of it does."""
    tasks = [asyncio.create_task(each) for each in work]
    failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not failure.done():
            failure.set_exception(error)

    for task in tasks:
        task.add_done_callback(tell)
    try:
        yield failure
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if failure.done():
            failure.exception()  # it was raised where it was waited for, or came too late to matter
        else:
            failure.cancel()


async def _first(
    stop: asyncio.Future[None], failure: asyncio.Future[None], wanted: asyncio.Task[Any] | None = None
) -> bool:
    """Waits for the first of: told to stop (False), a failure (raised), what is wanted (True)."""
    futures: set[asyncio.Future[Any]] = {stop, failure} if wanted is None else {stop, failure, wanted}
    done, left = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
    if wanted in left:
        wanted.cancel()
    for each in done - {stop}:
        each.result()
    return stop not in done


async def _come_up(settings: Settings, own: InstanceSecrets, *, with_demo: bool) -> demo.Demo | None:
    """Waits until the service answers, then has the demo made, when there is to be one."""
    deadline = time.monotonic() + READY_S
    while not await asyncio.to_thread(_is_ready, settings):
        if time.monotonic() > deadline:
            raise CannotServe(f"the service did not become ready within {READY_S:.0f} s; see the log above")
        await asyncio.sleep(LOOK_EVERY_S)
    if not with_demo:
        return None
    operator = OperatorClient(listen.local_operator_url(settings), own.operator_key)
    try:
        return await asyncio.to_thread(demo.seed, operator, settings.data_dir)
    except ClientError as error:
        raise CannotServe(f"the demo could not be made: {error}; --no-demo starts without it") from error


def _is_ready(settings: Settings) -> bool:
    connection = http.client.HTTPConnection(listen.reachable(settings.host).strip("[]"), settings.port, timeout=2)
    try:
        connection.request("GET", "/health/ready")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _fresh(path: Path) -> Path:
    """An empty directory: the counts of processes that are gone would be added to those of the new ones."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(mode=0o700)
    return path.resolve()


def _forget_in(metrics_dir: Path) -> Any:
    """Tells the metrics that a process is gone, so that its connections are not counted any more."""

    def forget(pid: int) -> None:
        multiprocess.mark_process_dead(pid, str(metrics_dir))  # type: ignore[no-untyped-call]

    return forget


def _say(started: banner.Started) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(f"\n{banner.text(started)}\n\n")
        sys.stdout.flush()
