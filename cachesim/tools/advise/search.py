"""Which changes of a case help? A search from cheap to dear: every change by itself, then the best ones in pairs.

Everything is a whole run of the simulator, from an empty server.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import combinations
from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.tools.advise.changes import ChangeKind, Setup, SetupChange, clashes, single_changes
from cachesim.tools.advise.outcome import Trial, tried
from cachesim.tools.advise.ranking import best_of_families, helps, rank

PAIRED = 4             # changes whose pairs are tried


class AdviceSearch:
    """A search for one case. ``base`` is the case as it is, ``found`` what was tried so far, in that order."""

    def __init__(self, case: Setup) -> None:
        self.case, self.engine = case, engine_of(case.profile)
        self.base = tried(case)
        self.bound = self.base.bound
        self.found: list[Trial] = []
        self._singles = list(single_changes(case, self.engine))

    def __len__(self) -> int:
        """How many changes there are at most."""
        return len(self._singles) + PAIRED * (PAIRED - 1) // 2

    def __iter__(self) -> Iterator[Trial | None]:
        """Try one change after the other; None for one that cannot be made, or changes nothing. What was found stays,
        wherever the search is left."""
        whole = self.base.outcome.evaluated > self.bound.total or self.base.outcome.wrong or self.base.outcome.failed
        for one in self._singles:
            if whole or one.kind is ChangeKind.CLIENT:       # nothing but other requests goes below the bound
                yield self._try((one,))
        for pair in self._pairs():
            yield self._try(pair)

    def _pairs(self) -> Iterator[tuple[SetupChange, ...]]:
        """Pairs of the best changes of a flag, of the client, and of a released build."""
        good = [one for one in self.found if helps(one, self.base) and one.changes[0].kind < ChangeKind.PROPOSAL]
        best = [one.changes[0] for one in sorted(best_of_families(good), key=rank)[:PAIRED]]
        for pair in combinations(best, 2):
            if not clashes(*pair):
                yield tuple(sorted(pair, key=lambda one: one.kind))

    def _try(self, changes: tuple[SetupChange, ...]) -> Trial | None:
        """Changes that this version does not know (an option of a newer one), or that no server takes, are none."""
        case: Setup | None = self.case
        with suppress(BadInput):
            for one in changes:
                case = case and one.of(case)
            if case is not None:
                same = not any(one.client for one in changes)
                self.found.append(tried(case, changes, self.bound if same else None))
                return self.found[-1]
        return None
