from __future__ import annotations

from tests.support.shared import service, shared_urls

__all__ = ["service", "shared_urls"]
