"""Which differences are no fault of ours? Each class has a predicate and a smallest conversation.

A difference that is in none of them counts, whatever it is.
"""

from __future__ import annotations

NAMED = {}
"""Name -> predicate of a difference and its recording. At most five."""


def name_of(difference, recording):
    """The class that a difference belongs to, "" for none."""
    return next((name for name, holds in NAMED.items() if holds(difference, recording)), "")
