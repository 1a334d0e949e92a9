"""Endpoints that an account registers to hear of its events."""
