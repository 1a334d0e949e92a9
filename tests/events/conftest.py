"""A database for all tests of a module that shares one."""

from tests.support.shared import shared_urls

__all__ = ["shared_urls"]
