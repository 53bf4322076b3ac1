"""What does a line say? Its tree: steps, requests with their texts, pieces of words.

A piece is a word, or a slice of one, at one place of a text. The same word is the same tokens everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, NamedTuple

Value = int | float | bool | str

ROLES = ("system", "user", "assistant", "tool")
TASKS = ("completion", "infill", "embedding", "rerank")
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "save": ("id_slot", "file"), "restore": ("id_slot", "file"), "erase": ("id_slot",), "restart": ("server",),
}  # fmt: skip
"""What is done beside asking, and what it takes."""


class Piece(NamedTuple):
    """``start`` and ``stop`` of a slice, None where it begins or ends with the word; ``user``: a user message starts
    here."""

    word: str
    user: bool = False
    start: int | None = None
    stop: int | None = None


Pieces = tuple[Piece, ...]


class Asked(NamedTuple):
    """A request, with a prompt or a chat: roles and texts. ``n_predict`` None = not given (1, or the length of the
    answer). ``cancel_after``: the client hangs up after so many generated tokens, 0 = in the prompt, after its first
    chunk. ``answers`` are those of the further completions. ``drafts`` are pairs (drafted, accepted) in the order of
    the iterations. ``together``: sent while the step before is at work, ``after`` rounds of the server's loop later.
    ``extra`` are fields that only some engines have. The other names are those of a server's request."""

    prompt: Pieces
    answer: Pieces | None = None
    n_predict: int | None = None
    cache_prompt: bool = True
    id_slot: int = -1
    task: str = "completion"
    n_keep: int = 0
    n_discard: int = 0
    n_cache_reuse: int | None = None
    n_cmpl: int = 1
    answers: tuple[Pieces, ...] = ()
    cancel_after: int | None = None
    drafts: tuple[tuple[int, int], ...] = ()
    draft_else: int = 0
    together: bool = False
    after: int = 0
    chat: tuple[tuple[str, Pieces], ...] = ()
    seed: bool = False
    extra: tuple[tuple[str, Value], ...] = ()


PLAIN = Asked(())
"""A request in which everything has its default."""


@dataclass(frozen=True, slots=True)
class Action:
    """A step that is no request: ``do`` one of ACTIONS, on slot ``id_slot`` (-1 = the whole server), with the file
    named ``file`` in the run's own folder. ``server`` are options that change with a restart."""

    do: str
    id_slot: int = -1
    file: str = ""
    server: tuple[tuple[str, Value], ...] = ()


class ScenarioLine(NamedTuple):
    """Steps in words, and the words' lengths. A word's place among them decides its tokens."""

    words: Mapping[str, int]
    steps: tuple[Asked | Action, ...]


def texts(step: Asked | Action) -> tuple[Pieces, ...]:
    """Everything that is said in words in a step, in the order in which it is written."""
    if isinstance(step, Action):
        return ()
    return (step.prompt, *(text for _, text in step.chat), *(() if step.answer is None else (step.answer,)),
            *step.answers)  # fmt: skip


def retold(step: Asked, change: Callable[[Pieces], Pieces]) -> Asked:
    """The request with every text changed in the same way."""
    return step._replace(
        prompt=change(step.prompt),
        answer=None if step.answer is None else change(step.answer),
        chat=tuple((role, change(text)) for role, text in step.chat),
        answers=tuple(change(text) for text in step.answers),
    )


def said_as(step: Asked | Action, change: Callable[[Pieces], Pieces]) -> Asked | Action:
    """The step with every text changed in the same way."""
    return step if isinstance(step, Action) else retold(step, change)


def used(line: ScenarioLine) -> list[str]:
    """The words of a line in the order of their first use."""
    return list(dict.fromkeys(piece.word for step in line.steps for text in texts(step) for piece in text))


def joins(step: Asked | Action, before: tuple[Asked | Action, ...] | list[Asked | Action]) -> bool:
    """Is the step sent together with the one before it? A step that is no request waits for everybody."""
    return isinstance(step, Asked) and step.together and bool(before) and isinstance(before[-1], Asked)
