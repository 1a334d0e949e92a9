"""Pure values and rules. Nothing here knows about HTTP, SQL or any feature."""
