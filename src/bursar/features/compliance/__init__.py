"""What staff ask of an account, what it answers, and what is held back until the answer is accepted."""
