"""Where do two texts differ, in characters and in bytes, and what stands there on both sides?"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.tokens import common_prefix

BEFORE, BEHIND = 16, 40      # characters of evidence before and behind the first difference


def encoded(text: str) -> bytes:
    """The bytes of a text; half of a pair of surrogates is three bytes."""
    return text.encode("utf-8", "surrogatepass")


def common_bytes(a: str, b: str, characters: int) -> int:
    """Bytes that two texts have in common, of which so many characters are equal: the next characters may share their
    first bytes."""
    one, other = encoded(a[characters : characters + 1]), encoded(b[characters : characters + 1])
    return len(encoded(a[:characters])) + common_prefix(one, other)


def common_suffix(a: str, b: str, most: int) -> int:
    """Length of the longest common end of two texts, at most ``most`` characters."""
    most = min(most, len(a), len(b))
    if not most:
        return 0
    return common_prefix(a[len(a) - most :][::-1], b[len(b) - most :][::-1])


class Evidence(NamedTuple):
    """What stands on both sides: equal text before (``same``), then the one and the other."""

    same: str
    before: str
    after: str


def evidence(a: str, b: str, at: int, behind: int = BEHIND) -> Evidence:
    """The surroundings of character ``at`` of two texts that are equal up to it."""
    return Evidence(a[max(0, at - BEFORE) : at], a[at : at + behind], b[at : at + behind])
