"""Card processors: the protocol they all speak, the simulated one, and the inbox of what they tell us."""
