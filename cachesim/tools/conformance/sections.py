"""Which sections has the suite? The same ones, in the same order, for an adapter and for a running server."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.tools.conformance.history_draw import Space

SECTIONS = {
    "noise": "how far apart are cold runs of the same request",
    "same": "a request is answered as on a cold run",
    "known": "histories of known faults",
    "drawn": "drawn histories",
    "reuse": "what was evaluated before is not evaluated from the start again",
    "isolation": "other conversations do not change an answer",
    "books": "reported counts add up",
    "faults": "errors and disconnecting clients leave the cache sound",
}
"""Every section with what it is about; its number is its place, from 1."""

MEMBERS: Mapping[str, Sequence[str]] = {
    "noise": ("steady",),
    "same": ("append", "branch", "prefix", "repeat", "uncached"),
    "known": (),
    "drawn": (),
    "reuse": ("extension", "return", "regenerate"),
    "isolation": ("new", "burst"),
    "books": ("accounting", "unseen", "work", "stored", "limits"),
    "faults": ("answers", "cancel"),
}
"""Properties of each section. Those of "known" and "drawn" are the others': their histories are counted there."""

BASIC: Mapping[str, Sequence[str]] = {
    "same": ("A{n}>a4/A.a.B8", "A{n}>a4/A[:{h}].B8", "A{n}>a4/A[:{h}]", "A{n}>a4/A", "A{n}>a4/A.a.B8!"),
    "isolation": ("A{n}>a4/B{n}", "A{n}>a4/B{n}/A.a.C8", "A{n}/B{h}{{together}}"),
    "faults": ("A{n}{{cancel_after=0}}/A.B8", "A{n}>4{{cancel_after=1}}/A.B8"),
}
"""Histories that a section always plays: ``n`` tokens, ``h`` half of them."""

FLOORS: Mapping[str, str] = {
    "extension": "A{n}>a4/A.a.B8", "return": "A{n}>a4/B{n}/A.a.C8", "regenerate": "A{n}>a4/A",
}  # fmt: skip
"""Histories in which something has to be reused by the last request."""

SHORT, ROOM = 24, 12         # tokens of the first prompt at least; those of the others beyond it
NEEDS = {"!": "cache", "together": "burst", "cancel_after=0": "cancel_prompt", "cancel_after=1": "cancel_answer"}


def chosen(only: Sequence[str], known: bool) -> frozenset[str]:
    """The sections that are played: those given, or all, "known" only where it is wanted. Raises BadInput."""
    for name in only:
        if name not in SECTIONS:
            raise BadInput(f"only: unknown section {quoted(name)}", hint=nearest(name, SECTIONS) or ", ".join(SECTIONS))
    return frozenset(only or (name for name in SECTIONS if known or name != "known"))


def basic_lines(sections: frozenset[str], space: Space) -> Iterator[str]:
    """The histories that these sections always play, as far as they fit and the implementation is able to."""
    names = sections | ({"same"} if sections & {"noise", "books"} else set())
    for name in SECTIONS:
        for pattern in BASIC.get(name, ()) if name in names else ():
            if line := _sized(pattern, space):
                yield line


def floor_lines(space: Space) -> dict[str, str]:
    """Property of "reuse" -> its history, where it fits."""
    lines = {name: _sized(pattern, space) for name, pattern in FLOORS.items()}
    return {name: line for name, line in lines.items() if line}


def _sized(pattern: str, space: Space) -> str:
    """The line, "" if it does not fit. Prompts are longer than twice the largest of the implementation's sizes, where
    they may be: whole blocks and chunks are reused."""
    n = min(max(SHORT, 2 * max(space.near, default=0) + 2), space.most_prompt - ROOM)
    line = pattern.format(n=n, h=n // 2)
    able = all(ability in space.abilities for sign, ability in NEEDS.items() if sign in line)
    return line if n >= 2 and able and line.count("/") < space.most_requests else ""
