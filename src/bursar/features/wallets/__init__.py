"""Wallets: balances, their ledger rows, the operator's adjustments and the audit."""
