"""Payments: taking them on a hosted checkout, learning what became of them, closing what was not paid."""
