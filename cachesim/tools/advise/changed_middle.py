"""Client changes to text in the middle of a prompt that differs from an earlier prompt: put it last, send it as before,
or send its parts in the same order."""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import Callable, Mapping, NamedTuple

from cachesim.scenarios.notation.tree import Piece, Pieces, ScenarioLine, texts
from cachesim.scenarios.notation.word_lengths import size
from cachesim.tools.advise.line_pieces import Steps, bare, common, requests, said, with_requests, without_slices

REGIONS = 16           # differing texts of a prompt that are restored, at most
ALIKE = 3, 4           # share of a text in another order whose tokens are the same


def move_changing_last(line: ScenarioLine) -> ScenarioLine | None:
    """Move text in the middle of a prompt that differs from an earlier prompt to the end; None without such text.

    Such text lies between two common parts: the prompts diverge, and later continue with a common piece (a date or
    a status has changed). Answers are not moved.
    """
    line = without_slices(line)
    answers = {piece.word for _, step in requests(line) for text in texts(step._replace(prompt=(), chat=()))
               for piece in text}  # fmt: skip
    moving: set[str] = set()
    before: list[Pieces] = []
    for _, step in requests(line):
        text = said(step).prompt
        if before:
            moving |= _between(max(before, key=lambda other: common((other, text))), text)
        before.append(text)
    moving -= answers
    return _told_last(line, moving) if moving else None


def _between(old: Pieces, new: Pieces) -> set[str]:
    """Return the words in which two texts differ between their common prefix and the next common piece."""
    n = common((old, new))
    for i, piece in enumerate(new[n:]):
        if piece in old[n:]:
            return {one.word for one in (*new[n : n + i], *old[n : n + old[n:].index(piece)])} if i else set()
    return set()


def _told_last(line: ScenarioLine, moving: set[str]) -> ScenarioLine | None:
    def last(text: Pieces) -> Pieces:
        return (*(one for one in text if one.word not in moving), *(one for one in text if one.word in moving))

    new = {}
    for i, step in requests(line):
        if step.chat:
            moved = tuple(piece for _, text in step.chat for piece in text if piece.word in moving)
            chat = [(role, tuple(one for one in text if one.word not in moving)) for role, text in step.chat]
            chat[-1] = (chat[-1][0], (*chat[-1][1], *moved))
            new[i] = step._replace(chat=tuple((role, text) for role, text in chat if text))
        else:
            new[i] = step._replace(prompt=last(step.prompt))
    return with_requests(line, new)


class ChangedMiddle(NamedTuple):
    """Text in which a prompt differs from an earlier prompt between two common parts: piece at which it begins, number
    of its pieces in the earlier prompt and in this prompt."""

    start: int
    old: int
    new: int


Words = Mapping[str, int]
Restorable = Callable[[Pieces, Pieces, Words], ChangedMiddle | None]


def send_unchanged(line: ScenarioLine) -> ScenarioLine | None:
    """Send text that was sent before as it was, where a prompt that continues an earlier prompt has other text instead,
    or lacks it; None without such text."""
    return _restored(line, _replaced)


def sort_parts(line: ScenarioLine) -> ScenarioLine | None:
    """Send the parts of a text in the order in which they were sent before, where a prompt that continues an earlier
    prompt has another order; None without such text."""
    return _restored(line, _reordered)


def _restored(line: ScenarioLine, find: Restorable) -> ScenarioLine | None:
    """Return the line in which each prompt has the text of an earlier prompt wherever ``find`` finds a difference; None
    if no prompt then continues an earlier prompt that it did not continue before."""
    line = without_slices(line)
    new: Steps = {}
    for i, step in requests(line):
        if step.chat or any(step.prompt[: len(old.prompt)] == old.prompt for old in new.values()):
            new[i] = step
            continue
        found = (_continued(old.prompt, step.prompt, find, line.words) for old in reversed(new.values()) if old.prompt)
        new[i] = step._replace(prompt=next((prompt for prompt in found if prompt is not None), step.prompt))
    return with_requests(line, new)


def _continued(old: Pieces, new: Pieces, find: Restorable, words: Words) -> Pieces | None:
    """Return a prompt that continues ``old`` with the text that ``new`` has after it; None if that is impossible."""
    for _ in range(REGIONS):
        if bare(new[: len(old)]) == bare(old):
            return new if len(new) > len(old) else None
        region = find(bare(old), bare(new), words)
        if region is None:
            return None
        at, out, into = region
        new = (*new[:at], *old[at : at + out], *new[at + into :])
    return None


def _replaced(old: Pieces, new: Pieces, words: Words) -> ChangedMiddle | None:
    """Return the first text of ``old`` that ``new`` replaces by another, or lacks."""
    at = common((old, new))
    if not at or _reordered(old, new, words):
        return None
    found = next((i for i, piece in enumerate(new[at:]) if piece in old[at:]), -1)
    out = old[at:].index(new[at + found]) if found >= 0 else 0
    return ChangedMiddle(at, out, found) if out else None


def _reordered(old: Pieces, new: Pieces, words: Words) -> ChangedMiddle | None:
    """Return the first text of ``old`` that ``new`` has in another order: as many tokens, most of those that are at
    other places the same, and the same text behind them. (Where parts begin alike, a beginning may be that of another
    part.)"""
    at = common((old, new))
    a, b = _places(old[at:], words), _places(new[at:], words)
    ends = {place: i for i, (place, _) in enumerate(b)}
    left: Counter[Piece] = Counter()
    stayed = tokens = 0
    for out, (place, piece) in enumerate(a):
        found = ends.get(place)
        if out > 1 and found is not None and old[at + out :][:1] == new[at + found :][:1]:
            both = left & Counter(new[at : at + found])
            same = sum(size((one,), words) * times for one, times in both.items()) - stayed
            if same and same * ALIKE[1] >= (tokens - stayed) * ALIKE[0]:
                return ChangedMiddle(at, out, found)
        if piece is None:
            break
        left[piece] += 1
        length = size((piece,), words)
        stayed, tokens = stayed + length * (found is not None and b[found][1] == piece), tokens + length
    return None


def _places(text: Pieces, words: Words) -> list[tuple[int, Piece | None]]:
    """Return the start of each piece of a text in tokens, with the piece; last the end of the text, with None."""
    starts = accumulate((size((piece,), words) for piece in text), initial=0)
    return list(zip(starts, (*text, None), strict=True))
