"""How does a history that breaks something become smaller? As every line does
(``cachesim.scenarios.notation.shrink``), as long as a cache can be asked for it."""

from __future__ import annotations

from typing import Callable

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.rows import ShrinkCase
from cachesim.scenarios.notation.shrink import Shrinking
from cachesim.scenarios.notation.tidy import merged, renamed_apart, unmarked
from cachesim.scenarios.notation.words import normal
from cachesim.tools.conformance.history import History, of_tree
from cachesim.tools.conformance.vocabulary_map import SLOTS

TRIES = 800                  # histories that are played for it: each is some requests to somebody else's cache


def shrink(history: History, breaks: Callable[[History], bool], tries: int = TRIES) -> History:
    """The smallest history that still breaks, as far as so many tries go. The given one does, and is returned if no
    smaller one does."""

    def happens(case: ShrinkCase) -> bool:
        other = _history(case)
        return other is not None and breaks(other)

    search = Shrinking(ShrinkCase(history.scenario.line), happens, tries)
    return _history(search.run((), (unmarked, merged, renamed_apart))) or history


def _history(case: ShrinkCase) -> History | None:
    """The history that a line is, None if it is none or has too many words."""
    try:
        return of_tree(normal(case.line)) if len(case.line.words) <= SLOTS else None
    except BadInput:
        return None
