"""Secret keys: issued once, found by keyed hash, rotated with grace, revoked everywhere within a second."""
