"""What is the smallest line in which something still happens? Fewer steps, shorter words, fewer options.

The case becomes a row of integers, of which smaller ones mean less. First a few much smaller rows are tried, since
lengths that must add up to something cannot be made shorter one by one. Then the numbers are lowered, many at a time
and one by one (descent.py). In the end single things are left out until none of them can go any more (simpler.py). The
same case and the same question give the same result on every machine, and nothing is asked for twice.
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

# How does a row of numbers become smaller while something stays true of it? Numbers are taken away, many at a time and
# one by one, and lowered, one alone and two by the same amount, until none of this helps.
#
# The same row and the same question give the same result on every machine and in every version.

Row = tuple[int, ...]
Holds = Callable[[Row], bool]


def lowest(row: Sequence[int], holds: Holds, tries: int) -> Row:
    """The smallest row found with so many questions; ``holds`` must be true of the given one, and no number of it is
    negative."""
    descent = _Descent(tuple(row), holds, tries)
    while True:
        before = descent.row
        descent.take_away()
        descent.lower_one()
        descent.lower_two()
        if descent.row == before or descent.spent:
            return descent.row


class _Descent:
    """The smallest row so far, and all that were asked for."""

    def __init__(self, row: Row, holds: Holds, tries: int) -> None:
        self.row, self.holds, self.tries = row, holds, tries
        self.asked: set[Row] = {row}

    @property
    def spent(self) -> bool:
        """Were all tries used up?"""
        return len(self.asked) > self.tries

    def take_away(self) -> None:
        """Whole stretches become zero, long ones first."""
        size = len(self.row)
        while size and not self.spent:
            for start in range(0, len(self.row), size):
                self._lower(range(start, min(start + size, len(self.row))), max(self.row[start : start + size]))
            size //= 2

    def lower_one(self) -> None:
        """Each number by itself, by as much as can be."""
        for i in range(len(self.row)):
            self._halving((i,))

    def lower_two(self) -> None:
        """Two numbers by the same amount: what matters may be their difference."""
        for pair in combinations([i for i, n in enumerate(self.row) if n > 1], 2):
            if self.spent:
                return
            self._halving(pair)

    def _halving(self, places: Sequence[int]) -> None:
        """Lower these by all that is there, or by half of it, and so on down to one."""
        by = min(self.row[i] for i in places)
        while by > 0:
            if self._lower(places, by):
                by = min(by, *(self.row[i] for i in places))
            else:
                by //= 2

    def _lower(self, places: Iterable[int], by: int) -> bool:
        """Lower these numbers, none below zero, if the row is still what is looked for."""
        if self.spent:
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

TRIES = 4000           # cases that are asked for, as long as nobody says otherwise
FIRST, LATER, CHANCE = 3 / 8, 3 / 32, 3 / 50
"""Shares of the tries: of the first descent, of each later one, of each round of chance."""
ROUNDS = 5             # at least 2 of chance and descent, more while a case is longer than it should be
STEPS, TOKENS = 4, 40  # as long as a case should be: requests, and tokens of each
CAPS = (1, 2, 3, 5, 5, 8, 12, 20, 40, 90, 140)
LONG = (64, 128, 248, 256)
"""Lengths at which the engines' constants begin to matter: some cases are smaller with one long word than with many."""
BEFORE: tuple[Change, ...] = (split,)
AFTER: tuple[Change, ...] = (unmarked, merged, renamed)
"""What is tried before and after the search, and kept if it still happens."""


class Shrinkable(Protocol):
    """What can be shrunk: a conversation in words, with options of a server where there are some."""

    @property
    def shrinkable(self) -> ShrinkCase:
        """What of it can be made smaller."""

    def reduced_to(self, small: ShrinkCase) -> Self | None:
        """What is left when only this stays; None = nothing that could be tried."""


S = TypeVar("S", bound=Shrinkable)


class Shrinking(Generic[S]):
    """The search for the smallest form of ``whole`` in which something ``happens``, with at most ``most`` tries.
    ``best`` is the smallest so far, ``tries`` the number of forms that were asked for."""

    def __init__(self, whole: S, happens: Callable[[S], bool], most: int = TRIES, seed: int = 0) -> None:
        self.whole, self.happens, self.most, self.seed = whole, happens, most, seed
        self.best = whole.shrinkable
        self.known: dict[object, bool] = {_key(self.best): True}
        self.tries = 0
        self.left = most

    @property
    def found(self) -> S:
        """The smallest form so far."""
        return self.whole.reduced_to(self.best) or self.whole

    def run(self, before: Sequence[Change] = BEFORE, after: Sequence[Change] = AFTER) -> S:
        """The smallest form, as far as so many tries go. It must happen in the given one, which is returned if it does
        in no smaller one."""
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
        """Does it still happen? Then this is the best case."""
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
        """A few much smaller cases. ``number``: which few."""
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
        """What is left when no single number of the row can be lowered any more."""
        case, top = self.best, whole(self.best)

        def still(flat: tuple[int, ...]) -> bool:
            small = reduced(case, top.like(flat))
            return small == self.best or self._still(small)

        lowest(top.flat, still, tries)

    def _one_by_one(self) -> None:
        """Single things go, until none can."""
        found = True
        while found and self.left > 0:
            smaller = takewhile(lambda _: self.left > 0, simpler(self.best))
            found = any(one != self.best and self._still(one) for one in smaller)


def shrink(whole: S, happens: Callable[[S], bool], most: int = TRIES, seed: int = 0) -> S:
    """The smallest form in which something ``happens``, as far as so many tries go, its words named A, B, C."""
    return Shrinking(whole, happens, most, seed).run()


def _key(case: ShrinkCase) -> object:
    return tuple(case.line.words.items()), case.line.steps, case.options


def _weight(case: ShrinkCase) -> tuple[bool, int, int, int]:
    """What is smaller? One request more is less than a text too long to be read."""
    line = case.line
    return longest(line) > TOKENS, len(line.steps), longest(line), sum(line.words.values())
