"""The known faults, before anything else: a difference so large that no noise explains it, seen twice.

What differs by less is left to the search, behind a measurement of the noise.
"""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.tools.conformance.history import of_line
from cachesim.tools.conformance.history_player import PlayedHistory
from cachesim.tools.conformance.http_check.answers import Alike
from cachesim.tools.conformance.http_check.known import early_lines
from cachesim.tools.conformance.http_check.noise import LEGAL, MOST
from cachesim.tools.conformance.http_check.warm_first import ServerStage
from cachesim.tools.conformance.properties import EQUAL, Check, checks
from cachesim.tools.conformance.protocol import Reply

PLAYS = 3                    # further ones at most: with some tokens a fault moves the answer by little

OFTEN = 3                    # plays in which a smaller difference is enough


class Early(NamedTuple):
    """A history whose last request was answered wrong in two plays; ``played`` is one of them, ``check`` what was wrong
    with it, ``sent`` the number of requests up to then."""

    line: str
    played: PlayedHistory
    check: Check
    sent: int


def look(stage: ServerStage, most: int) -> Iterator[Early]:
    """Play the shortest history of every known fault."""
    for lines in early_lines(most, stage.server.sizes):
        together = stage.play(of_line("/".join(lines)), spare=True)
        wrong = {check.request: check for check in _wrong(together)}
        ends = [sum(line.count("/") + 1 for line in lines[:place]) for place in range(1, len(lines) + 1)]
        found = [(line, end - 1) for line, end in zip(lines, ends, strict=True) if end - 1 in wrong]
        for line, number in sorted(found, key=lambda one: -_cached(together, one[1])):
            if early := _confirmed(stage, line, wrong[number]):
                yield early
                break


def _cached(played: PlayedHistory, request: int) -> int:
    """Tokens that a request reused: of several histories the one that reused most is the one that it was made for."""
    said = played.warm[request]
    return (said.cached or 0) if isinstance(said, Reply) else 0


def _confirmed(stage: ServerStage, line: str, first: Check) -> Early | None:
    """The history by itself, once more: its last request differs by more than noise there too, and in one of the plays
    by more than is ever allowed, or in three."""
    largest, often = _size(first), 1
    for _ in range(PLAYS):
        played = stage.play(of_line(line), spare=True)
        last = len(played.asks) - 1
        check = next((one for one in _wrong(played) if one.request == last), None)
        largest = max(largest, _size(check) if check else 0.0)
        often += check is not None
        if check is not None and (largest >= MOST or often >= OFTEN):
            return Early(line, played, check, stage.http.sent)
    return None


def _size(check: Check) -> float:
    return check.apart.largest if check.apart is not None else MOST


def _wrong(played: PlayedHistory) -> list[Check]:
    """Answers that differ by more than noise does."""
    return [check for check in checks(played, Alike(LEGAL)) if check.name in EQUAL and not check.ok]
