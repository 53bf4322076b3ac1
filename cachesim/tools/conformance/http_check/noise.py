"""How far apart are two answers that should be the same? A few repetitions first, long prompts and splits later."""

from __future__ import annotations

from typing import Iterator

from cachesim.base.errors import BadInput
from cachesim.tools.conformance.history import of_line
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.http_check.replies import gap
from cachesim.tools.conformance.http_check.warm_first import ServerStage
from cachesim.tools.conformance.protocol import Failed, Reply

SHORT = "A40"                        # the same cold three times: once with an empty slot, twice without the cache
NOISE = (SHORT, "A5>a3/A.a.B1", "A30/A.B2", "A64/A.B1", "A69/A[:64]", "A260/A.B1", "A261/A[:256]", "A517/A[:512]")
"""The same cold twice; split differently, in long prompts too: a prompt of 64 tokens has another kernel than one token
behind 63, and under default flags that is a thousand times the difference of short ones."""
ROUNDS = 3                           # with other tokens each time
TIMES = 10                           # what was measured, so often, is allowed
LEAST, LEGAL, MOST = 0.005, 0.03, 0.1
"""Noise has a long tail: of a server with noise of 5e-6 some legal splits differ by 1e-3, so ``LEAST`` is always
allowed. Larger differences than ``LEGAL`` are no noise; more than ``MOST`` is never allowed."""


def tolerance_of(measured: float) -> float:
    """What is allowed where so much was measured."""
    return max(LEAST, min(MOST, TIMES * measured))


def repeats(stage: ServerStage) -> bool:
    """Returns True if a short prompt is answered the same, up to legal differences, whenever it is sent. Raises
    BadInput if nothing answers."""
    return all(size <= LEGAL for size in _sizes(_played(stage, SHORT)))


def measure(stage: ServerStage, most: int) -> float:
    """The largest legal difference between two answers that should be the same; prompts of at most ``most`` tokens.
    Raises BadInput if nothing answers."""
    largest = 0.0
    for line in NOISE * ROUNDS:
        if of_line(line).tokens <= 2 * most and not stage.http.spent:
            largest = max([largest, *(size for size in _sizes(_played(stage, line)) if size <= LEGAL)])
    return largest


def _played(stage: ServerStage, line: str) -> PlayedHistory:
    played = stage.play(of_line(line))
    bad = next((one for one in (*played.warm, *played.cold) if isinstance(one, Failed)), None)
    if bad is not None:
        raise BadInput(str(bad), file=stage.http.url)
    return played


def _sizes(played: PlayedHistory) -> Iterator[float]:
    """Differences of warm and cold answers, and of two cold ones. What reused little of its prompt was not split as
    these histories want it: a stale state of one token moves the answer to a long prompt by as little as noise."""
    for ask, one, two, three in zip(played.asks, played.warm, played.cold, played.again, strict=False):
        split = isinstance(one, Reply) and (not one.cached or 2 * one.cached >= len(ask.prompt))
        for a, b in [(one, two)] * split + [(two, three)]:
            if isinstance(a, Reply) and isinstance(b, Reply):
                yield gap(a.fingerprint, b.fingerprint)
