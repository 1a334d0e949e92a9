"""The delivery log: what was sent to whom, how often, and what came back."""
