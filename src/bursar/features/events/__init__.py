"""The event log: what happened, kept, and sent again on demand."""
