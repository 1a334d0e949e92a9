"""The one door to money: every movement is a balanced journal, posted here or not at all."""
