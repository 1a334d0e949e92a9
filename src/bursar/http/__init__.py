"""The wire conventions that every route shares. No feature's rule lives here."""
