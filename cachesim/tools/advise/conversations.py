"""Which requests of a line go on with which earlier ones?"""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.engines.manual import Load
from cachesim.scenarios.notation.tree import Asked, Pieces, ScenarioLine
from cachesim.scenarios.notation.words import predicted, prompt_size

NOBODY = -1


class RequestPieces(NamedTuple):
    """The pieces of a request without their marks, those of a chat one after the other, and those of its answer."""

    prompt: Pieces
    answer: Pieces


def said(step: Asked) -> RequestPieces:
    """What is said in a request."""
    prompt = (*step.prompt, *(piece for _, text in step.chat for piece in text))
    return RequestPieces(bare(prompt), bare(step.answer or ()))


def bare(pieces: Pieces) -> Pieces:
    """Pieces without the marks of user messages."""
    return tuple(piece._replace(user=False) for piece in pieces)


def requests(line: ScenarioLine) -> Iterator[tuple[int, Asked]]:
    """The requests of a line with their numbers."""
    return ((i, step) for i, step in enumerate(line.steps) if isinstance(step, Asked))


def parents(line: ScenarioLine) -> dict[int, int]:
    """For each request the earlier one with the longest prompt that it begins with, ``NOBODY`` where there is none."""
    found: dict[int, int] = {}
    told: dict[int, RequestPieces] = {}
    for i, step in requests(line):
        mine = said(step)
        fits = [k for k, other in told.items() if other.prompt and mine.prompt[: len(other.prompt)] == other.prompt]
        found[i] = max(fits, key=lambda k: (len(told[k].prompt), k), default=NOBODY)
        told[i] = mine
    return found


def conversations(line: ScenarioLine) -> dict[int, int]:
    """The conversation of each request: they are numbered in the order in which they begin."""
    found: dict[int, int] = {}
    for i, parent in parents(line).items():
        found[i] = found[parent] if parent != NOBODY else len(set(found.values()))
    return found


def load_of(line: ScenarioLine) -> Load:
    """What a line demands of a server."""
    longest: dict[int, int] = {}
    of = conversations(line)
    for i, step in requests(line):
        tokens = prompt_size(step, line.words) + max(0, predicted(step, line.words))
        longest[of[i]] = max(longest.get(of[i], 0), tokens)
    return Load(max(longest.values(), default=0), sum(longest.values()), len(longest))


def common(lists: Sequence[Pieces]) -> int:
    """How many pieces all lists begin with."""
    first = min(lists, key=len, default=())
    return next((i for i, piece in enumerate(first) if any(other[i] != piece for other in lists)), len(first))
