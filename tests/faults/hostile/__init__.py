"""Hostile input against a running service: what is malformed, oversized, foreign or simply too much."""
