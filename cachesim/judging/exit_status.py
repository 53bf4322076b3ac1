"""Is a judged run good? The answer that exit codes and tests agree on, from the plain data of a run."""

from __future__ import annotations

from typing import Any, Mapping


def outcome(run: Mapping[str, Any], as_expected: bool) -> bool | None:
    """True good, False broken or not as its file says, None undecided. With ``as_expected`` a broken run, and one with
    requests that cannot be settled, is good where its file says exactly that; a refused request is good where its file
    expects the status."""
    known = as_expected and run["as_expected"] is True
    if run["as_expected"] is False or (run["holds"] is False and not known):
        return False
    doubts = [one["i"] for one in run["requests"] if one["equal_cold"] is None and one["i"] not in run["told"]]
    if run["holds"] is None and not (known and doubts == run["unsettled"]):
        return None
    return True
