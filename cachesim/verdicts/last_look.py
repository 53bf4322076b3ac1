"""What is new since the last look? So that a judge looks at nothing twice that cannot have changed."""

from __future__ import annotations

from typing import Any, Hashable, Sequence

from cachesim.engines.judge_view import Shelf, StatePart
from cachesim.oracle import ColdRun
from cachesim.tokens import common_prefix
from cachesim.verdicts.clean_prefix import clean_state
from cachesim.verdicts.texts import Place

ENOUGH = 512             # states of which it is known whether they are clean


def differing(was: Sequence[Shelf], now: Sequence[Shelf]) -> tuple[list[Shelf], list[Shelf]]:
    """The shelves that are gone, and those that have come, in order."""
    behind = common_prefix(was[::-1], now[::-1])
    was, now = was[: len(was) - behind], now[: len(now) - behind]
    before, after = set(was), set(now)
    return [one for one in was if one not in after], [one for one in now if one not in before]


class Remembered:
    """States that were compared with those of a cold run; the ones that were not asked about for long are forgotten.
    A state is immutable, and known by its identity as long as it is kept here."""

    def __init__(self) -> None:
        self.recent: dict[Hashable, tuple[list[Any], bool]] = {}
        self.older: dict[Hashable, tuple[list[Any], bool]] = {}

    def clean(self, state: StatePart, cold: ColdRun, place: Place) -> bool:
        """Are these the states after the tokens of a place? ``cold`` is a run that begins with them."""
        held = list(state.rows.values())
        key = (place.text.number, place.n, *map(id, held))
        found = self.recent.get(key) or self.older.get(key)
        if found is None:
            found = held, clean_state(state, cold, place.n)
        if len(self.recent) >= ENOUGH:
            self.older, self.recent = self.recent, {}
        self.recent[key] = found
        return found[1]
