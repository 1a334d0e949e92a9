"""What can be wrong with a file."""

from __future__ import annotations

from bursar.core.errors import ApiError


class UnsupportedFileType(ApiError, code="unsupported_file_type", status=422):
    """The file must be a PDF, JPEG or PNG, named and declared as what it is, and without active content."""


class UploadNotFound(ApiError, code="upload_not_found", status=404):
    """There is no such file."""
