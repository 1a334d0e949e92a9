"""Twelve mistakes that somebody could make, each put into a copy of the service: the suite must notice every one."""
