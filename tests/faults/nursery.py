"""Starts the service's processes by forking one that has already loaded the program, so that a restart costs little.

`python -m tests.faults.nursery` reads one order a line (what to run, with which environment, where to log) and writes
one line for each process started and each that ended. When its input ends, so do all its processes.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from typing import Any

# Loaded once, for all that are forked.
import bursar.app
import bursar.cli.commands
import bursar.processors.simulator.serve
import bursar.supervisor.database  # noqa: F401
from bursar.cli import main


def run(order: dict[str, Any]) -> None:
    """In the child: becomes the process that was ordered."""
    os.setsid()
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(order["environment"])
    status = 1
    try:
        status = main(order["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def say(**line: Any) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


def reap(running: set[int]) -> None:
    while running:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        running.discard(pid)
        say(died=pid, status=os.waitstatus_to_exitcode(status))


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: set[int] = set()
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    unread = b""
    while True:
        for ready, _ in waiting.select():
            if ready.fd == woken:
                os.read(woken, 4096)
                reap(running)
                continue
            some = os.read(0, 65536)
            if not some:
                for pid in running:
                    os.kill(pid, signal.SIGKILL)
                return
            *orders, unread = (unread + some).split(b"\n")
            for line in orders:
                order = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for number in (signal.SIGINT, signal.SIGCHLD):
                        signal.signal(number, signal.SIG_DFL)
                    run(order)
                running.add(pid)
                say(started=pid, ticket=order["ticket"])


if __name__ == "__main__":
    serve()
