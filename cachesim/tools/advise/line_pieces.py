"""Requests of a scenario line as pieces: texts without marks, common prefixes, and lines with other requests."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.scenarios.notation.normalise import split
from cachesim.scenarios.notation.tree import LineRequest, Pieces, ScenarioLine, texts

Steps = dict[int, LineRequest]


class RequestPieces(NamedTuple):
    """Pieces of a request without marks (of a chat: of all messages), and pieces of its answer."""

    prompt: Pieces
    answer: Pieces


def said(step: LineRequest) -> RequestPieces:
    """Return the prompt and the answer of a request as pieces without marks."""
    prompt = (*step.prompt, *(piece for _, text in step.chat for piece in text))
    return RequestPieces(bare(prompt), bare(step.answer or ()))


def bare(pieces: Pieces) -> Pieces:
    """Return the pieces without the marks of user messages."""
    return tuple(piece._replace(user=False) for piece in pieces)


def requests(line: ScenarioLine) -> Iterator[tuple[int, LineRequest]]:
    """Yield the requests of a line with their step numbers."""
    return ((i, step) for i, step in enumerate(line.steps) if isinstance(step, LineRequest))


def common(lists: Sequence[Pieces]) -> int:
    """Return the number of pieces in the common prefix of all lists."""
    first = min(lists, key=len, default=())
    return next((i for i, piece in enumerate(first) if any(other[i] != piece for other in lists)), len(first))


def without_slices(line: ScenarioLine) -> ScenarioLine:
    """Return the line without slices: every part of a sliced word becomes a word."""
    cut = any(piece[2:] != (None, None) for step in line.steps for text in texts(step) for piece in text)
    return split(line) if cut else line


def with_requests(line: ScenarioLine, changed: Mapping[int, LineRequest]) -> ScenarioLine | None:
    """Return the line with these requests replaced, None if nothing changes."""
    steps = tuple(changed.get(i, step) for i, step in enumerate(line.steps))
    return None if steps == line.steps else line._replace(steps=steps)
