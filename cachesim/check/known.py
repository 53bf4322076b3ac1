"""Histories of known faults, the shortest of each, scaled to windows of usual sizes."""

from __future__ import annotations

from typing import Iterator

WINDOWS = (8, 16, 32, 64, 128, 256, 512, 1024)
BEHIND = (5, 9)                      # tokens of the first prompt behind the window: one play may differ by little
STALE = ("A5/B10/B[:1].C5", "A5/B10/B[:3].C3")
"""A checkpoint that survives another prompt."""
NEIGHBOUR, ROOM = "S8.A4>3/S.B5>3/S.C600>3/S.C[:2].D2>3", 610
"""A checkpoint one token behind the common prefix."""

LAST = ("A5>a3/A.a", "A5>a3/A[:4]")
"""A prompt that is all of a conversation, or all of a prompt but its last token: nothing is left to evaluate. They have
ended servers, so they are played last."""


def early_lines(most: int) -> Iterator[tuple[str, ...]]:
    """Histories that are played together, one behind the other, before anything else: one of each fault, so that it is
    found with few requests."""
    yield (STALE[0],)
    if most > ROOM:
        yield (NEIGHBOUR,)
    pairs = [(word, window) for word, window in zip("ABCDEFGH", WINDOWS, strict=True) if window + BEHIND[0] <= most]
    yield tuple(f"{word}{window + BEHIND[0]}/{word}[:{window}]" for word, window in pairs)


def known_lines(most: int) -> Iterator[str]:
    """The shortest histories of faults that llama.cpp has had, with windows of usual sizes: a checkpoint that survives
    another prompt, one token behind a common prefix, a prefix of just the window."""
    yield from STALE
    if most > ROOM:
        yield NEIGHBOUR
    for behind in BEHIND:
        yield from (f"A{window + behind}/A[:{window}]" for window in WINDOWS if window + behind <= most)
