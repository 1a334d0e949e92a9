"""Conversations between accounts and staff."""
