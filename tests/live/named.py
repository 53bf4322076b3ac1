"""Which differences are no fault of ours? Each class has a predicate and a smallest conversation.

A difference that is in none of them counts, whatever it is. A verdict is never accepted for the size of a number: the
conversation is repeated under other tokens (``renamed``), and what that shows decides.
"""

from __future__ import annotations

OTHER = 99.0                # an answer of other tokens
LARGE = 0.05
"""A difference of log-probabilities that no rounding makes: with F16 K/V, flash attention and cells in other places the
largest of an answer that reads only its own rows is 0.022."""


def shown(difference, recording, runs):
    """Ours says that something foreign was read, the real answer is a cold one's within rounding: under other tokens
    it is not."""
    return _verdict(difference) == ("equal", "broken") and any(broken and beyond for broken, _, beyond in runs)


def not_shown(difference, recording, runs):
    """The real answer differs from a cold one in its last digits, and no repetition under other tokens shows more than
    that: not decided, and counted apart. An answer that never differs at all is no such case: then ours is wrong that
    something was read."""
    if _verdict(difference) not in (("equal", "broken"), ("differs", "holds")):
        return False
    wrong = difference.ours == "broken"
    alike = [(apart, beyond) for broken, apart, beyond in runs if broken == wrong]
    if not alike or any(beyond for _, beyond in alike):
        return False
    return 0 < max(size(difference, recording), *(apart for apart, _ in alike)) <= LARGE


def size(difference, recording):
    """How far the answers of the step that differs are from cold ones."""
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    return max((apart_of(cold) for one in step.get("steps", [step]) for cold in colds(one)), default=0.0)


def log_cut_off(difference, recording, runs):
    """Both servers ended in this step, and the real one's log lacks its last lines: another thread writes it, and the
    process was gone first."""
    step = next(step for step in recording["steps"] if step["i"] == difference.step)
    missing = difference.what == "event" and difference.recorded is None
    return missing and difference.ended and "died" in step


def _verdict(difference):
    return (difference.recorded, difference.ours) if difference.what == "verdict" else None


def apart_of(cold):
    """How far an answer is from a cold one; other tokens are as far as can be."""
    return cold.get("max_dlogprob", 0.0) if cold["equal"] or cold.get("tie") else OTHER


def colds(member):
    """The comparisons of a request with a cold run, those of its further completions included."""
    response = member.get("response") or {}
    return [one["cold"] for one in (member, *response.get("completions", ())) if "cold" in one]


NAMED = {"shown under other tokens": shown, "not shown": not_shown, "log cut off": log_cut_off}
"""Name -> predicate of a difference, its recording, and of its repetitions under other tokens (ours says wrong, how far
the answer is from a cold one, is that beyond rounding). At most five."""


def name_of(difference, recording, runs=()):
    """The class that a difference belongs to, "" for none."""
    return next((name for name, holds in NAMED.items() if holds(difference, recording, runs)), "")
