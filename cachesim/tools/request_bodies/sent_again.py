"""Text after the first change of a prompt that the previous prompt contains, too: unchanged, or in another order.

A cache cannot reuse it, but a client that changes less could let it. Ranges are tokens of the previous prompt with its
answer; their ends are rounded to tokens.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import accumulate, islice
from typing import NamedTuple, Sequence

from cachesim.tools.request_bodies.body import common_suffix
from cachesim.tools.request_bodies.plain_render import END
from cachesim.tools.request_bodies.tokenizer import Tokenizer

ANCHOR = 64                  # characters at the end of the previous prompt that are searched
OCCURRENCES = 64             # of that text in the new prompt, at most
LEAST = 16                   # characters of a text that counts as sent again, at least


class SentRange(NamedTuple):
    """Tokens of a prompt: ``size`` tokens from token ``start`` of the previous prompt and answer, -1 = other text."""

    start: int
    size: int


class ChangedRegion(NamedTuple):
    """Characters that differ: from ``start`` to ``old_stop`` in the old text and to ``new_stop`` in the new. The old
    text from there to ``end`` follows in both."""

    start: int
    old_stop: int
    new_stop: int
    end: int


def find_region(old: str, new: str, start: int, ends: Sequence[int]) -> ChangedRegion | None:
    """Return the smallest region from character ``start``, the first that differs, so that the rest of ``old`` up to
    one of ``ends`` follows in ``new``. None if its end does not occur."""
    for end in ends:
        anchor = old[end - min(ANCHOR, max(LEAST, (end - start) // 2)) : end]
        if end - start <= LEAST:
            continue
        found = islice(re.finditer(f"(?={re.escape(anchor)})", new[start:]), OCCURRENCES)
        stops = [start + match.start() + len(anchor) for match in found]
        sizes = (common_suffix(old[start:end], new[start:stop], end - start) for stop in stops)
        best = max(zip(sizes, stops, strict=True), default=None)
        if best is not None:
            size, stop = best
            return ChangedRegion(start, end - size, stop - size, end)
    return None


class TokenPositions:
    """Tokens of a prompt by the position of their characters, rounded. ``size``: its tokens."""

    def __init__(self, text: str, size: int, tokenizer: Tokenizer) -> None:
        self.text = text
        self.size = size
        self.tokenizer = tokenizer

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self.tokenizer.tokens(text)) if text else 0

    def at(self, character: int) -> int:
        """Return the token at which a character is."""
        return max(0, self.size - self.count(self.text[character:]))


def sent_ranges(old: TokenPositions, new: str, region: ChangedRegion, shared: int, answer: str, answer_size: int
                ) -> tuple[SentRange, ...]:  # fmt: skip
    """Return the tokens of the prompt ``new`` after the first ``shared`` tokens, as far as they are in the region or
    were sent before. ``answer``: the answer to ``old``, ``answer_size`` its tokens."""
    first, stop = old.at(region.old_stop), old.at(region.end)
    order = reordered_lines(old, new, region, shared)
    changed = [SentRange(-1, old.count(new[region.start : region.new_stop]))]
    found = order or [*changed, SentRange(first, stop - first)]
    if order:
        last = max(one.start + one.size for one in order)
        found = [*order, SentRange(last, stop - last)]
    behind = region.new_stop + region.end - region.old_stop
    if region.end == len(old.text) and answer and new.startswith(answer, behind):
        found.append(SentRange(old.size, answer_size))
    return tuple(one for one in found if one.size > 0)


def reordered_lines(old: TokenPositions, new: str, region: ChangedRegion, shared: int) -> list[SentRange]:
    """Return the tokens of a region in which ``new`` has the lines of the old text in another order, from token
    ``shared`` in the first of them on; [] for other regions.

    Lines often have the same beginning. It is taken from the line of the old text at the same place, so that both texts
    have the same tokens.
    """
    begin = old.text.rfind("\n", 0, region.start) + 1
    ends = [text.find("\n", stop) for text, stop in ((old.text, region.old_stop), (new, region.new_stop))]
    if -1 in ends:
        return []
    was, now = (text[begin:end].removesuffix(END.strip()).split("\n")
                for text, end in zip((old.text, new), ends, strict=True))  # fmt: skip
    if len(was) < 2 or sorted(was) != sorted(now):
        return []
    sizes = [old.count(f"{line}\n") for line in was]
    starts = [*accumulate(sizes, initial=old.at(begin))]
    head, same = shared - starts[0], was[0][: region.start - begin]
    places = defaultdict(list)
    for i, line in enumerate(was):
        places[line].append(i)
    if head < 0 or min(sizes) <= head:
        return []
    out = []
    for j, line in enumerate(now):
        i = places[line].pop(0)
        if j:
            out.append(SentRange(starts[j if line.startswith(same) and was[j].startswith(same) else i], head))
        out.append(SentRange(starts[i] + head, sizes[i] - head))
    return out
