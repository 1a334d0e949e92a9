"""The process that does what falls due."""
