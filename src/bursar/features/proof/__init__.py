"""Proof of what was sold, and the reserve that is held until it is approved."""
