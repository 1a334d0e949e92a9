"""`bursar serve`: database, API processes and worker as one service that starts, stays up and stops together."""
