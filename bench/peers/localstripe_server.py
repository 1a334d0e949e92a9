"""localstripe on loopback; its own command listens on every address and keeps its store in a fixed place.

python localstripe_server.py PORT FILE
"""

import builtins
import sys
from typing import Any

from aiohttp import web
from localstripe import resources
from localstripe.server import app

port, kept = int(sys.argv[1]), sys.argv[2]


def _open(_: str, mode: str) -> Any:
    return builtins.open(kept, mode)


resources.open = _open
web.run_app(app, host="127.0.0.1", port=port, access_log=None, print=None)
