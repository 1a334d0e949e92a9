"""Posting payments: through the ledger, by hand in SQL, and in ledgers whose accounts are rows. One run, one server.

A payment of 100.00 with a processing fee and an application fee: one journal, four entries, two wallets, two unsettled
parts. 32 clients. Spread: 5,000 shops and 5,000 platforms. Hot: the same shops, one platform in every payment.
"""
