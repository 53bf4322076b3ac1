"""Which differences are no fault of ours? Each class has a predicate and a smallest conversation.

A difference that is in none of them counts, whatever it is.
"""

from __future__ import annotations


def below_rounding(difference, recording):
    """Ours says that something foreign was read; the real answer is a cold one's within rounding, though not to the
    last bit. What was read wrongly lies so far back, or is one of so many, that the numbers cannot tell it from another
    order of sums."""
    if difference.what != "verdict" or (difference.recorded, difference.ours) != ("equal", "broken"):
        return False
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    found = [cold for one in step.get("steps", [step]) for cold in colds(one)]
    return all(cold["equal"] for cold in found) and any(cold.get("max_dlogprob", 0) > 0 for cold in found)


def log_cut_off(difference, recording):
    """Both servers ended in this step, and the real one's log lacks its last lines: another thread writes it, and the
    process was gone first."""
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    missing = difference.what == "event" and difference.recorded is None
    return missing and difference.ended and "died" in step


def colds(member):
    """The comparisons of a request with a cold run, those of its further completions included."""
    response = member.get("response") or {}
    return [one["cold"] for one in (member, *response.get("completions", ())) if "cold" in one]


NAMED = {"below rounding": below_rounding, "log cut off": log_cut_off}
"""Name -> predicate of a difference and its recording. At most five."""


def name_of(difference, recording):
    """The class that a difference belongs to, "" for none."""
    return next((name for name, holds in NAMED.items() if holds(difference, recording)), "")
