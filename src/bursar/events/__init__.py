"""What happened, told to those who asked: the outbox, and what the worker sends from it."""
