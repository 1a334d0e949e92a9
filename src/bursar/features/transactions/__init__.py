"""Transactions: payments as the books see them."""
