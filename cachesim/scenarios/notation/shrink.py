"""Shrinking of failing lines (delta debugging): fewer steps, shorter words, fewer options.

The case is encoded as an integer vector (shrink_vector.py). First, a few much smaller random vectors are tried, because
lengths that must add up cannot be reduced individually. Then the numbers are lowered, in blocks, individually and in
pairs. Finally single reductions (deletions.py) are tried until none succeeds. The result is equal on every machine and
in every version, and no candidate is tested twice.
"""

from __future__ import annotations

from itertools import combinations, takewhile
from typing import Callable, Generic, Iterable, Protocol, Self, Sequence, TypeVar

from cachesim.model.hash_mixing import Rng
from cachesim.scenarios.notation.deletions import simpler
from cachesim.scenarios.notation.normalise import merged, renamed, split, unmarked
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, reduced, whole
from cachesim.scenarios.notation.tree import ScenarioLine
from cachesim.scenarios.notation.word_lengths import longest

Row = tuple[int, ...]
Holds = Callable[[Row], bool]


def lowest(row: Sequence[int], holds: Holds, tries: int) -> Row:
    """Return the smallest vector for which ``holds`` is true, found with at most ``tries`` tests. ``holds(row)`` must
    be true, and no number in ``row`` may be negative."""
    descent = _Descent(tuple(row), holds, tries)
    while True:
        before = descent.row
        descent.take_away()
        descent.lower_one()
        descent.lower_two()
        if descent.row == before or descent.is_spent:
            return descent.row


class _Descent:
    """Descent from a vector. ``row``: smallest vector so far; ``asked``: vectors that were tested."""

    def __init__(self, row: Row, holds: Holds, tries: int) -> None:
        self.row = row
        self.holds = holds
        self.tries = tries
        self.asked: set[Row] = {row}

    @property
    def is_spent(self) -> bool:
        """True if all tries are used up."""
        return len(self.asked) > self.tries

    def take_away(self) -> None:
        """Set blocks of numbers to 0, long blocks first (delta debugging)."""
        size = len(self.row)
        while size and not self.is_spent:
            for start in range(0, len(self.row), size):
                self._lower(range(start, min(start + size, len(self.row))), max(self.row[start : start + size]))
            size //= 2

    def lower_one(self) -> None:
        """Lower each number individually as far as possible."""
        for i in range(len(self.row)):
            self._halving((i,))

    def lower_two(self) -> None:
        """Lower pairs of numbers by equal amounts, because only their difference may matter."""
        for pair in combinations([i for i, n in enumerate(self.row) if n > 1], 2):
            if self.is_spent:
                return
            self._halving(pair)

    def _halving(self, places: Sequence[int]) -> None:
        """Lower these numbers by the smallest of them, then by half of that, and so on down to 1."""
        by = min(self.row[i] for i in places)
        while by > 0:
            if self._lower(places, by):
                by = min(by, *(self.row[i] for i in places))
            else:
                by //= 2

    def _lower(self, places: Iterable[int], by: int) -> bool:
        """Lower these numbers by ``by``, not below 0, if ``holds`` is still true. Return True on success."""
        if self.is_spent:
            return False
        new = list(self.row)
        for i in places:
            new[i] = max(0, new[i] - by)
        row = tuple(new)
        if row in self.asked:
            return False
        self.asked.add(row)
        if not self.holds(row):
            return False
        self.row = row
        return True


Change = Callable[[ScenarioLine], ScenarioLine]

TRIES = 4000           # default number of tested cases
FIRST, LATER, CHANCE = 3 / 8, 3 / 32, 3 / 50
"""Shares of the tries: first descent, each later descent, each random phase."""
ROUNDS = 5             # maximum rounds of random phase and descent; at least 2, more while the case is too long
STEPS, TOKENS = 4, 40  # desired maximum: requests, and tokens per request
CAPS = (1, 2, 3, 5, 5, 8, 12, 20, 40, 90, 140)
LONG = (64, 128, 248, 256)
"""Lengths at which constants of the engines take effect; some cases are smaller with a long word than with many."""
BEFORE: tuple[Change, ...] = (split,)
AFTER: tuple[Change, ...] = (unmarked, merged, renamed)
"""Transformations before and after the search, kept if the failure still happens."""


class Shrinkable(Protocol):
    """Interface of objects that can be shrunk: a conversation in words, optionally with server options."""

    @property
    def shrinkable(self) -> ShrinkCase:
        """The part that can be shrunk."""

    def reduced_to(self, small: ShrinkCase) -> Self | None:
        """Return the object reduced to ``small``; None if it cannot be run."""


S = TypeVar("S", bound=Shrinkable)


class Shrinking(Generic[S]):
    """Search for the smallest form of ``whole`` for which ``happens`` is true, with at most ``most`` tries. ``best``:
    smallest form so far; ``tries``: number of tested forms."""

    def __init__(self, whole: S, happens: Callable[[S], bool], most: int = TRIES, seed: int = 0) -> None:
        self.whole = whole
        self.happens = happens
        self.most = most
        self.seed = seed
        self.best = whole.shrinkable
        self.known: dict[object, bool] = {_key(self.best): True}
        self.tries = 0
        self.left = most

    @property
    def found(self) -> S:
        """Smallest form so far."""
        return self.whole.reduced_to(self.best) or self.whole

    def run(self, before: Sequence[Change] = BEFORE, after: Sequence[Change] = AFTER) -> S:
        """Return the smallest form found. ``happens`` must be true for ``whole``, which is returned if no smaller form
        is found."""
        self.left = self.most - len(after)
        self._tidy(before)
        for number in range(ROUNDS):
            self._by_chance(number)
            self._by_descent(int(self.most * (LATER if number else FIRST)))
            line = self.best.line
            if number and len(line.steps) <= STEPS and longest(line) <= TOKENS:
                break
        self._one_by_one()
        self.left += len(after)
        self._tidy(after)
        return self.found

    def _still(self, case: ShrinkCase) -> bool:
        """Test a case and make it the best case on success. Return True on success."""
        key = _key(case)
        if key not in self.known:
            if self.left <= 0 or not case.line.steps:
                return False
            self.left -= 1
            self.tries += 1
            small = self.whole.reduced_to(case)
            self.known[key] = small is not None and self.happens(small)
        if self.known[key]:
            self.best = case
        return self.known[key]

    def _tidy(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if self.left > 0:
                self._still(self.best._replace(line=change(self.best.line)))

    def _by_chance(self, number: int) -> None:
        """Test a few much smaller random cases. ``number``: number of the round, part of the random seed."""
        rng, case = Rng(self.seed, "shrink", f"{number}"), self.best
        top = whole(case)
        for _ in range(int(self.most * CHANCE)):
            cap, lose = rng.one(CAPS), rng.one((0, 0, 15, 40))
            words = [min(n, rng.between(0, cap)) if rng.chance(90) else n for n in top.words]
            steps = tuple(int(not rng.chance(lose)) for _ in top.steps)
            options = tuple(int(not rng.chance(2 * lose)) for _ in top.options)
            if words and rng.chance(50):
                words[rng.below(len(words))] = rng.one(LONG) + rng.below(14)
            small = reduced(case, top._replace(steps=steps, words=tuple(words), options=options))
            if _weight(small) < _weight(self.best):
                self._still(small)

    def _by_descent(self, tries: int) -> None:
        """Lower the numbers of the vector until no number can be lowered."""
        case, top = self.best, whole(self.best)

        def still(flat: tuple[int, ...]) -> bool:
            small = reduced(case, top.like(flat))
            return small == self.best or self._still(small)

        lowest(top.flat, still, tries)

    def _one_by_one(self) -> None:
        """Apply single reductions until none succeeds."""
        found = True
        while found and self.left > 0:
            smaller = takewhile(lambda _: self.left > 0, simpler(self.best))
            found = any(case != self.best and self._still(case) for case in smaller)


def shrink(whole: S, happens: Callable[[S], bool], most: int = TRIES, seed: int = 0) -> S:
    """Return the smallest form found for which ``happens`` is true, with its words renamed to A, B, C."""
    return Shrinking(whole, happens, most, seed).run()


def _key(case: ShrinkCase) -> object:
    return tuple(case.line.words.items()), case.line.steps, case.options


def _weight(case: ShrinkCase) -> tuple[bool, int, int, int]:
    """Return the sort key for the size of a case: too long requests count more than the number of requests."""
    line = case.line
    return longest(line) > TOKENS, len(line.steps), longest(line), sum(line.words.values())
