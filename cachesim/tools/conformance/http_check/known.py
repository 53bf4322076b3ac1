"""Histories of known faults, the shortest of each, scaled to windows of usual sizes."""

from __future__ import annotations

from typing import Iterator, Sequence

WINDOWS = (8, 16, 32, 64, 128, 256, 512, 1024)
WORDS = "ABCDEFGHIJ"                 # one for each window
BEHIND = (5, 9)                      # tokens of the first prompt behind the window: with more, another fault shows;
                                     # several are generated, because the first may differ by little
STALE = ("A5/B10/B[:1].C5", "A5/B10/B[:3].C3")
"""A checkpoint that survives another prompt."""
NEIGHBOUR, ROOM = "S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3", 610
"""A checkpoint one token behind the common prefix."""

LAST = ("A5>a3/A.a", "A5>a3/A[:4]")
"""A prompt that is all of a conversation, or all of a prompt but its last token: nothing is left to evaluate. They have
ended servers, so they are played last."""


def early_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[tuple[str, ...]]:
    """Histories that are played together, one behind the other, before anything else: one of each fault, so that it is
    found with few requests. ``sizes``: those that the server states, which may be its window."""
    yield (STALE[0],)
    if most > ROOM:
        yield (NEIGHBOUR,)
    pairs = zip(WORDS, [one for one in windows(sizes) if one + BEHIND[0] <= most], strict=False)
    yield tuple(f"{word}{window + BEHIND[0]}/{word}[:{window}]>8" for word, window in pairs)


def windows(sizes: Sequence[int]) -> list[int]:
    """Usual sizes of windows, and those that a server states, these first where there are many."""
    return sorted([*dict.fromkeys((*sizes, *WINDOWS))][: len(WORDS)])


def known_lines(most: int, sizes: Sequence[int] = ()) -> Iterator[str]:
    """The shortest histories of faults that llama.cpp has had, with windows of usual sizes: a checkpoint that survives
    another prompt, one token behind a common prefix, a prefix of just the window."""
    yield from STALE
    if most > ROOM:
        yield NEIGHBOUR
    for behind in BEHIND:
        yield from (f"A{window + behind}/A[:{window}]>8" for window in windows(sizes) if window + behind <= most)
