"""Faults that nobody can notice, each with the reason. One that is noticed all the same does not belong here."""

SURVIVORS: dict[str, str] = {}
