"""Shrinking of a differing conversation: requests are removed and words shortened while the difference stays."""

from __future__ import annotations

import time

from cachesim.tools.live.llama_server.real.shrinking import shrink


def smaller(table, recorder, case, difference, recording, seconds):
    """Return the smallest case found within the time, its difference and its recording."""
    end, best = time.monotonic() + seconds, (case, difference, recording)

    def fails(candidate):
        nonlocal best
        try:
            again, made = table.alone(recorder, candidate)
        except Exception:                   # a case that cannot be run is not a smaller failure
            return False
        if again is None or again.group != difference.group:
            return False
        best = candidate, again, made
        return True

    shrink(case, fails, lambda: time.monotonic() > end)
    return best
