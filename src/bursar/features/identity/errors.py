"""What can be wrong with a verification link."""

from __future__ import annotations

from bursar.core.errors import ApiError


class VerificationLinkNotFound(ApiError, code="verification_link_not_found", status=404):
    """There is no such verification link."""


class IdentityAlreadyVerified(ApiError, code="identity_already_verified", status=409):
    """The identity is already verified; ask for a reverification to repeat it."""


class VerificationLinkClosed(ApiError, code="verification_link_closed", status=409):
    """The verification link is finished and cannot change any more."""


class VerificationLinkExpired(ApiError, code="verification_link_expired", status=410):
    """The verification link has expired; ask for a new one."""
