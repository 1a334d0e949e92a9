"""Refunds: money back to customers, through the processor that took it."""
