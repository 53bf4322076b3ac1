"""Shrinking of a differing conversation: requests are removed and words shortened while the difference stays.

Every attempt starts the real server, so there are few: a bisection of the requests, then of each word's length.
"""

from __future__ import annotations

import time

from cachesim.scenarios.notation.shrink_vector import ShrinkCase, reduced, whole


def smaller(table, recorder, case, difference, recording, seconds):
    """Return the smallest case found within the time, its difference and its recording."""
    end, best = time.monotonic() + seconds, (case, difference, recording)
    start = ShrinkCase(case.line, tuple(case.given()))

    def fails(row):
        nonlocal best
        try:
            candidate = case.reduced_to(reduced(start, row))
            if not candidate.asked:
                return False
            again, made = table.alone(recorder, candidate)
        except Exception:                   # a case that cannot be run is not a smaller failure
            return False
        if again is None or again.group != difference.group:
            return False
        best = candidate, again, made
        return True

    row = whole(start)
    for field in ("steps", "options", "flags", "rare", "pieces", "words"):
        for place in reversed(range(len(getattr(row, field)))):
            for value in _less(getattr(row, field)[place], field):
                if time.monotonic() > end:
                    return best
                values = list(getattr(row, field))
                values[place] = value
                tried = row._replace(**{field: tuple(values)})
                if fails(tried):
                    row = tried
                    break
    return best


def _less(value, field):
    """Return smaller candidates for a value, the smallest first."""
    if not value:
        return ()
    return (0,) if field != "words" else [n for n in (0, 1, 4, value // 2, value - 1) if n < value]
