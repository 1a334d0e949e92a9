"""Proving who stands behind an account: links to the hosted page, what was sent there, and what came of it."""
