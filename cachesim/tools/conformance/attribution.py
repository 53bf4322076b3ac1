"""To which property is a wrong answer attributed? To the plainest one that explains it, at the first wrong request.

What is wrong later in the same history may follow from the first. A wrong answer after a client disconnected, or in a
burst, is attributed to that only if the same prompts, one after the other and answered to the end, are answered right.
"""

from __future__ import annotations

from typing import Callable, Sequence

from cachesim.tools.conformance.properties import EQUAL, Check

SPECIAL = ("cancel", "burst")
Replay = Callable[..., Sequence[Check]]


def attributed(found: Sequence[Check], replay: Replay | None) -> list[Check]:
    """The checks, failures that follow from others left out. ``replay`` plays the same prompts without the special ways
    of asking that it is given; None if there are none."""
    wrong = _wrong(found)
    if not wrong:
        return list(found)
    first = min(wrong)
    special = {check.name for check in found if check.name in SPECIAL and check.request == first}
    if replay is None or not special or first in _wrong(replay("cache", *SPECIAL)):
        special = set()
    elif len(special) > 1:
        special = {name for name in SPECIAL if first not in _wrong(replay(name))} or special
    guilty = special or set(EQUAL).difference(SPECIAL)
    return [check for check in found if check.ok or check.name not in EQUAL
            or (check.request == first and check.name in guilty)]  # fmt: skip


def _wrong(found: Sequence[Check]) -> set[int]:
    """The requests that are not answered as on a cold run."""
    return {check.request for check in found if check.name in EQUAL and not check.ok}
