"""Syntax tree of the notation: steps, requests with their texts, pieces of words.

A piece is an occurrence of a word or of a slice of a word in a text. A word has the same tokens everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Mapping, NamedTuple

Value = int | float | bool | str

ROLES = ("system", "user", "assistant", "tool")
TASKS = ("completion", "infill", "embedding", "rerank")
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "save": ("id_slot", "file"), "restore": ("id_slot", "file", "percent"), "erase": ("id_slot",),
    "restart": ("server",),
    "lora": ("scales",),
}  # fmt: skip
"""Actions besides requests, with their arguments."""


class Piece(NamedTuple):
    """A word or a slice of it. ``start``, ``stop``: bounds of the slice, None = those of the word; ``user``: a user
    message starts here."""

    word: str
    user: bool = False
    start: int | None = None
    stop: int | None = None


Pieces = tuple[Piece, ...]


class LineRequest(NamedTuple):
    """A request with a prompt or a chat. Fields without a comment have the meaning of the server's request field."""

    prompt: Pieces
    answer: Pieces | None = None                        # forced answer
    n_predict: int | None = None                        # None = not given: 1, or the length of the answer
    cache_prompt: bool = True
    id_slot: int = -1
    task: str = "completion"                            # an entry of TASKS
    n_keep: int = 0
    n_discard: int = 0
    n_cache_reuse: int | None = None
    n_cmpl: int = 1                                     # completions of the prompt
    answers: tuple[Pieces, ...] = ()                    # forced answers of the further completions
    cancel_after: int | None = None                     # client disconnects after n generated tokens; 0 = in the prompt
    drafts: tuple[tuple[int, int], ...] = ()            # (drafted, accepted) per iteration
    draft_else: int = 0                                 # tokens drafted in later iterations, all accepted
    together: bool = False                              # sent without waiting for the previous request
    after: int = 0                                      # server-loop rounds after the previous request
    chat: tuple[tuple[str, Pieces], ...] = ()           # (role, text)
    seed: bool = False
    extra: tuple[tuple[str, Value], ...] = ()           # fields that only some engines have


PLAIN = LineRequest(())
"""A request with default values only."""


@dataclass(frozen=True, slots=True)
class Action:
    """A step that is not a request. ``do``: a key of ACTIONS; ``id_slot``: -1 = the whole server; ``file``: name of a
    slot file in the folder of the run; ``server``: options that a restart changes; ``percent``: share of the
    file that is left when it is restored; ``scales``: of the server's adapters, by id, as in 0:1,2:0.5; those not named
    are off."""

    do: str
    id_slot: int = -1
    file: str = ""
    server: tuple[tuple[str, Value], ...] = ()
    percent: int = 100
    scales: str = ""


class ScenarioLine(NamedTuple):
    """Steps in words, and the lengths of the words [tokens]. The index of a word in ``words`` determines its tokens."""

    words: Mapping[str, int]
    steps: tuple[LineRequest | Action, ...]


def texts(step: LineRequest | Action) -> tuple[Pieces, ...]:
    """Return all texts of a step, in the order in which they are written."""
    if isinstance(step, Action):
        return ()
    return (step.prompt, *(text for _, text in step.chat), *(() if step.answer is None else (step.answer,)),
            *step.answers)  # fmt: skip


def map_texts(step: LineRequest, change: Callable[[Pieces], Pieces]) -> LineRequest:
    """Return the request with ``change`` applied to every text."""
    return step._replace(
        prompt=change(step.prompt),
        answer=None if step.answer is None else change(step.answer),
        chat=tuple((role, change(text)) for role, text in step.chat),
        answers=tuple(change(text) for text in step.answers),
    )


def map_step_texts(step: LineRequest | Action, change: Callable[[Pieces], Pieces]) -> LineRequest | Action:
    """Return the step with ``change`` applied to every text; an action unchanged."""
    return step if isinstance(step, Action) else map_texts(step, change)


def used(line: ScenarioLine) -> list[str]:
    """Return the words of a line in the order of their first use."""
    return list(dict.fromkeys(piece.word for step in line.steps for text in texts(step) for piece in text))


def joins(step: LineRequest | Action, before: tuple[LineRequest | Action, ...] | list[LineRequest | Action]) -> bool:
    """True if a request is sent together with the previous request. Actions always wait for all previous requests."""
    return isinstance(step, LineRequest) and step.together and bool(before) and isinstance(before[-1], LineRequest)
