"""One running instance per module; tests open accounts of their own."""

from tests.features.operator.conftest import bursar, module_urls

__all__ = ["bursar", "module_urls"]
