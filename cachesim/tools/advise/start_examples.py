"""Small conversations that show what a configuration reuses: one for each habit of clients, of any length."""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

CONVERSATIONS = 8        # other conversations between two turns


class ClientHabit(NamedTuple):
    """What a client does. ``text``: in words; ``line``: the requests in notation, for a length of the prompts [tokens];
    ``request``: number of the request that could reuse tokens."""

    text: str
    line: Callable[[int], str]
    request: int


def _after_others(length: int) -> str:
    """Return a conversation whose second turn follows those of other conversations."""
    names = (chr(ord("B") + i) for i in range(CONVERSATIONS))
    others = "/".join(f"{name}{length}>4" for name in names)
    return f"A{length}>a8/{others}/A.a.Z20>4"


def _at_once(length: int) -> str:
    """Return two conversations of two turns that are sent together."""
    return f"A{length}>a8/B{length}>b8{{together}}/A.a.C20>4/B.b.D20>4{{together}}"


LONG_PROMPT = ClientHabit("a long prompt", lambda n: f"A{n}>8", 0)
"""Shows the longest prompt that the server answers."""
HABITS: Sequence[ClientHabit] = (
    ClientHabit("the next turn of a conversation", lambda n: f"A{n}>a8/A.a.B20>4", 1),
    ClientHabit("the same prompt sent again", lambda n: f"A{n}>4/A>4", 1),
    ClientHabit("a new conversation that begins like an earlier one", lambda n: f"S{n}.A40>4/S.B40>4", 1),
    ClientHabit("the last message edited", lambda n: f"A{n}>a8/A.a.B20>4/A.a.C20>4", 2),
    ClientHabit("a turn after one of another conversation", lambda n: f"A{n}>a8/B{n}>4/A.a.C20>4", 2),
    ClientHabit(f"a turn after those of {CONVERSATIONS} other conversations", _after_others, CONVERSATIONS + 1),
    ClientHabit("two conversations at once", _at_once, 3),
)  # fmt: skip
"""From the most frequent habit to the rarest."""
LENGTHS = (60, 299, 1499, 5999, 24001)
"""Lengths that are tried [tokens]: none of them is a multiple of a block or a page."""
ENDLESS = "A20>-1"
"""A request for as many tokens as the server generates."""
