"""What can be wrong with a compliance request."""

from __future__ import annotations

from bursar.core.errors import ApiError


class ComplianceRequestNotFound(ApiError, code="compliance_request_not_found", status=404):
    """There is no such compliance request."""


class ComplianceRequestClosed(ApiError, code="compliance_request_closed", status=409):
    """The compliance request is closed, or waits for staff."""


class DocumentRequired(ApiError, code="document_required", status=422):
    """This compliance request needs a document."""
