"""How children notice that their supervisor is gone, even killed: a pipe that ends when it does."""

from __future__ import annotations

import os
import signal
import threading
import time

GRACE_S = 10.0


def hold() -> int:
    """The end that children are given. The other stays open in this process, and in no other, until it ends."""
    children_end, _ = os.pipe()
    return children_end


def follow(number: int) -> None:
    """Ends this process when the pipe does: politely, then for certain."""

    def wait() -> None:
        while os.read(number, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_S)
        os._exit(1)

    threading.Thread(target=wait, name="lifeline", daemon=True).start()
