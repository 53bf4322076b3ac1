"""A failing conversation is made smaller: fewer steps, shorter words, fewer options, while the same group of findings
shows. The search itself is that of every line (``cachesim.scenarios.notation.shrink``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from cachesim.scenarios.notation import rows
from cachesim.scenarios.notation.shrink import TRIES, Shrinking
from cachesim.tools.search.case import DrawnConversation

Fails = Callable[[DrawnConversation], bool]


def shrink(case: DrawnConversation, fails: Fails, tries: int = TRIES) -> DrawnConversation:
    """The smallest case that ``fails``, as far as so many tries go, its words named A, B, C. The given one must fail;
    it is returned if nothing smaller does."""
    return like(case, searching(case, fails, tries).run())


def searching(case: DrawnConversation, fails: Fails, tries: int = TRIES) -> Shrinking:
    """The search that ``shrink`` makes, before it has begun."""
    start = rows.ShrinkCase(case.line, tuple(case.given()))
    return Shrinking(start, lambda small: fails(like(case, small)), tries, case.seed)


def like(case: DrawnConversation, small: rows.ShrinkCase) -> DrawnConversation:
    """The case that is left when only this stays of it."""
    server = {name: case.server[name] for name in small.options}
    return replace(case, server=server, words=small.line.words, asked=small.line.steps)
