"""Merchants, platforms, and merchants connected to a platform."""
