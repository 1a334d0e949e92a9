"""Running the instance: its clock, its due work, the operator's audit trail."""
