"""What can be wrong with running the instance."""

from __future__ import annotations

from bursar.core.errors import ApiError


class WorkFailed(ApiError, code="work_failed", status=500):
    """The worker could not do what was asked; its log says why."""
