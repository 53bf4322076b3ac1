"""Types of tokens and positions, and their longest common prefix.

A token is a non-negative integer. Its position is its index in the sequence, from 0 (text only).
"""

from __future__ import annotations

from typing import Any, NamedTuple, NewType, Sequence

Pos = NewType("Pos", int)          # index of a token in its sequence; -1 stands for "none"
SeqId = NewType("SeqId", int)      # id of a sequence in an engine; in llama-server the slot id
Tokens = tuple[int, ...]

class TokenList(list[int]):
    """List of tokens. A deep copy copies it whole: token by token, a long prompt takes a hundred times as long."""

    def __deepcopy__(self, memo: dict[int, Any]) -> TokenList:
        return TokenList(self)


POS_NONE = Pos(-1)
POS_INF = Pos(2**31 - 1)           # "to the end" in a half-open range of positions


class Span(NamedTuple):
    """Half-open range of positions: start .. stop-1."""

    start: int
    stop: int


def common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """Return the length of the longest common prefix of two token lists or two texts. Both must have the same type.

    Binary search over slice comparisons (each a single C loop), so that long equal prefixes stay cheap.
    """
    n = min(len(a), len(b))
    if not n or a[0] != b[0]:       # the most frequent case
        return 0
    if a[:n] == b[:n]:
        return n
    lo, hi = 0, n                   # equal up to lo, a difference before hi
    while hi - lo > 1:
        mid = (lo + hi) // 2
        if a[lo:mid] == b[lo:mid]:
            lo = mid
        else:
            hi = mid
    return lo
