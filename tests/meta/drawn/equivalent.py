"""Faults that change nothing that a caller can notice, each with a proof that another person can check."""

EQUIVALENT: dict[str, str] = {}
"""Name of the fault -> proof."""
