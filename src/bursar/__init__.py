"""Bursar: a self-hosted payments platform."""

__version__ = "0.1.0"
