"""`python -m bursar`: the command line, for where its script is not on the path."""

from __future__ import annotations

import sys

from bursar.cli import main

if __name__ == "__main__":
    sys.exit(main())
