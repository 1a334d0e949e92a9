"""A database for all tests of a module that shares one, and a mail server."""

from tests.support.mailhost import mailhost
from tests.support.shared import shared_urls

__all__ = ["mailhost", "shared_urls"]
