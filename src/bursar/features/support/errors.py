"""What can be wrong with a support ticket."""

from __future__ import annotations

from bursar.core.errors import ApiError


class TicketNotFound(ApiError, code="ticket_not_found", status=404):
    """There is no such support ticket."""


class TicketClosed(ApiError, code="ticket_closed", status=409):
    """The support ticket is closed; open a new one."""
