"""Bursar broken on purpose: kills, cuts, races and hostile input, and a judge who looks at what is left."""
