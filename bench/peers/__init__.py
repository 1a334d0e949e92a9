"""Peers from the package registries, each in an environment of its own under bench/.peers, beside the service.

None of them is part of this project; they are installed when `make bench-peers` runs, and `make clean` removes them.
"""
