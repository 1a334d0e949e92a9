"""Test instances: the operator plays the customer, and orders the processor to misbehave."""
