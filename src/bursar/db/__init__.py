"""The edge to PostgreSQL: connections and transactions, migrations, listings, group commit, the embedded server."""
