"""Which properties does an implementation break, and what is the smallest history that shows it?

One pass plays all histories and shrinks nothing; then each broken property is searched for again by itself, so that one
does not hide another. Histories are played once: both passes draw the same ones, and replies are remembered.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Callable

from hypothesis import Phase, Verbosity, assume, find, settings
from hypothesis.errors import NoSuchExample, Unsatisfiable
from hypothesis.strategies import SearchStrategy

from cachesim.kit.blame import blame
from cachesim.kit.history import History, Turn, of_turns
from cachesim.kit.play import Played
from cachesim.kit.properties import Check, Same, checks
from cachesim.kit.shrink import shrink

Player = Callable[[History], Played]
Turns = SearchStrategy[list[Turn]]


@dataclass(slots=True)
class Tally:
    """What all histories together showed of one property."""

    seen: int = 0
    reused: int = 0
    broken: list[tuple[History, Check]] = field(default_factory=list)

    def copy(self) -> Tally:
        """The tally as it is now."""
        return Tally(self.seen, self.reused, list(self.broken))


class Search:
    """Plays histories and remembers what every one of them breaks."""

    def __init__(self, play: Player, same: Same, most_prompt: int) -> None:
        self.play, self.same, self.most_prompt = play, same, most_prompt
        self.tallies: dict[str, Tally] = {}
        self.gap = ""                                # the first ability that was missing where it had been there
        self.known: dict[str, list[Check]] = {}

    def look(self, history: History) -> list[Check]:
        """The checks of a history, each wrong answer charged to one property."""
        if history.line not in self.known:
            self.known[history.line] = found = self._charged(history)
            for check in found:
                self._count(history, check)
        return self.known[history.line]

    def _charged(self, history: History) -> list[Check]:
        def replay(*names: str) -> list[Check]:
            return self._checks(history.without(*names))

        return blame(self._checks(history), replay if "{" in history.line else None)

    def _checks(self, history: History) -> list[Check]:
        played = self.play(history)
        self.gap = self.gap or played.gap
        return list(checks(played, self.same))

    def _count(self, history: History, check: Check) -> None:
        tally = self.tallies.setdefault(check.name, Tally())
        tally.seen += 1
        tally.reused += check.reused
        if not check.holds:
            tally.broken.append((history, check))

    def draw(self, turns: Turns, examples: int) -> None:
        """Play so many histories."""
        self._find(lambda history: self.look(history) is None, turns, examples)

    def smallest(self, name: str, turns: Turns, examples: int) -> tuple[History, Check]:
        """The smallest history that breaks a property, of all that were played on the way to it, made smaller still."""
        self._find(lambda history: self._breaks(history, name), turns, examples)
        history, _ = min(self.tallies[name].broken, key=lambda one: (len(one[0].hang_ups), one[0].tokens, one[0].line))
        history = shrink(history, lambda one: self._breaks(one, name))
        return history, next(check for check in self.look(history) if check.name == name and not check.holds)

    def again(self, history: History, check: Check) -> bool:
        """Does it break the same way when it is played once more?"""
        return check in self._charged(history)

    def _breaks(self, history: History, name: str) -> bool:
        return any(check.name == name and not check.holds for check in self.look(history))

    def _find(self, wanted: Callable[[History], bool], turns: Turns, examples: int) -> None:
        """Draw different histories until one is wanted, then ever smaller ones. The same every time: derandomised."""
        drawn: dict[str, list[Turn]] = {}                # line -> the turns that came to it first: no other ones count

        def condition(chosen: list[Turn]) -> bool:
            history = of_turns(chosen, self.most_prompt)
            if wanted(history):
                return True
            assume(drawn.setdefault(history.line, chosen) == chosen)
            return False

        how = settings(
            max_examples=examples, derandomize=True, database=None, deadline=None, verbosity=Verbosity.quiet,
            phases=(Phase.generate, Phase.shrink),
        )  # fmt: skip
        with suppress(NoSuchExample, Unsatisfiable):
            find(turns, condition, settings=how)
