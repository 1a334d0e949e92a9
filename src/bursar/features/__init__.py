"""One folder a noun. A feature reaches another through its `service` only."""
