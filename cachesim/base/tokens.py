"""Types of tokens and positions, and the longest common prefix and substring of token lists.

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


BLOCK = 1024                       # tokens of a slice that ``common_prefix`` compares
POS_NONE = Pos(-1)
POS_INF = Pos(2**31 - 1)           # "to the end" in a half-open range of positions


class Span(NamedTuple):
    """Half-open range of positions: start .. stop-1."""

    start: int
    stop: int


def common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    """Return the length of the longest common prefix of two token lists or two texts. Both must have the same type.

    Slices are compared, each in a single C loop: block by block up to the first difference, then by binary search.
    """
    n = min(len(a), len(b))
    if not n or a[0] != b[0]:       # the most frequent case
        return 0
    lo = 0
    hi = n if n < BLOCK else BLOCK
    while a[lo:hi] == b[lo:hi]:
        if hi == n:
            return n
        lo, hi = hi, min(hi + BLOCK, n)
    while hi - lo > 1:              # equal up to lo, a difference before hi
        mid = (lo + hi) // 2
        if a[lo:mid] == b[lo:mid]:
            lo = mid
        else:
            hi = mid
    return lo


def common_substring(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length of the longest common substring of two token lists, in time linear in their lengths.

    The suffix automaton of ``a`` reads ``b``. A state stands for the substrings that end at the same places: ``size``
    of its longest, ``link`` to the state of its longest suffix that ends at more places, and a state after each token.
    """
    most = 2 * len(a) + 1
    after: list[dict[int, int]] = [{} for _ in range(most)]
    link = [-1] * most
    size = [0] * most
    last = 0
    states = 1
    for token in a:
        state = states
        before = last
        last = states
        states, size[state] = states + 1, size[before] + 1
        while before >= 0 and token not in after[before]:
            after[before][token] = state
            before = link[before]
        link[state] = 0
        if before >= 0:
            other = link[state] = after[before][token]
            if size[other] > size[before] + 1:        # its shorter substrings end at more places from now on
                part, states = states, states + 1
                after[part], link[part], size[part] = {**after[other]}, link[other], size[before] + 1
                link[state] = link[other] = part
                while before >= 0 and token in after[before] and after[before][token] == other:
                    after[before][token] = part
                    before = link[before]
    state = held = longest = 0
    for token in b:
        while state and token not in after[state]:
            state = link[state]
            held = size[state]
        if token in after[state]:
            state, held = after[state][token], held + 1
            longest = held if held > longest else longest      # called for each token, ``max`` would be slower
    return longest
