"""Mutations that the generator leaves out because they are no faults: nothing that anybody can see is another."""

NO_FAULTS: dict[str, str] = {}
"""Name of the fault -> why it is none."""
