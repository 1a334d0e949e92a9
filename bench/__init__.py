"""Benchmarks, each beside its floor: what the database or the bare framework could do at best, in the same run."""
