"""A running instance with its processor simulator, shared by the tests of a module."""

from tests.support.till_fixtures import merchant, module_urls, platform, shop, till

__all__ = ["merchant", "module_urls", "platform", "shop", "till"]
