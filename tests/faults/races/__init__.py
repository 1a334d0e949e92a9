"""Races over HTTP, through two API processes: many do the same, or the opposite, at the same moment."""
