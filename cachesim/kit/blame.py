"""Which property is to blame for a wrong answer? The plainest one that explains it, at the first request that is wrong.

What is wrong later in the same history may follow from the first. What a hang-up or a burst seems to break is charged
to it only if the same prompts, one after the other and heard to the end, are answered right.
"""

from __future__ import annotations

from typing import Callable, Sequence

from cachesim.kit.properties import EQUAL, Check

SPECIAL = ("cancel", "burst")


def blame(found: Sequence[Check], plain: Callable[[], Sequence[Check]] | None) -> list[Check]:
    """The checks that are charged. ``plain`` plays the same prompts plainly; None if they were."""
    wrong = _wrong(found)
    if not wrong:
        return list(found)
    first = min(wrong)
    also = _wrong(plain()) if plain else wrong
    special = first not in also and any(check.name in SPECIAL and check.request == first for check in found)
    return [check for check in found if check.holds or check.name not in EQUAL
            or (check.request == first and (check.name in SPECIAL) == special)]  # fmt: skip


def _wrong(found: Sequence[Check]) -> set[int]:
    """The requests that are not answered as cold."""
    return {check.request for check in found if check.name in EQUAL and not check.holds}
