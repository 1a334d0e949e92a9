"""Where money may be sent: bank accounts, their checks, and their numbers, which only the worker can read."""
