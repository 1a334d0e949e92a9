"""What can be wrong with a key."""

from __future__ import annotations

from bursar.core.errors import ApiError


class KeyNotRotatable(ApiError, code="key_not_rotatable", status=422):
    """The key was revoked or already has a successor."""
