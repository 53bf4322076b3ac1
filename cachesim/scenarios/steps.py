"""How does one parsed request become a Step? Shared by the file form and the one-line form."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.engines.base import Request
from cachesim.errors import BadInput
from cachesim.scenarios.schema import MAX_TOKENS, Step
from cachesim.scenarios.words import Piece, expand, size, user_starts, written


class Asked(NamedTuple):
    """A request as written: ``n_predict`` None = not given (1, or the length of the answer)."""

    prompt: tuple[Piece, ...]
    answer: tuple[Piece, ...] | None = None
    n_predict: int | None = None
    cache_prompt: bool = True
    id_slot: int = -1
    why: str = ""


def make_steps(asked: list[Asked], words: Mapping[str, int]) -> tuple[Step, ...]:
    """The steps of a scenario. Raises BadInput if they need more than ``MAX_TOKENS`` tokens together."""
    total = sum(size(one.prompt, words) + _predicted(one, words) for one in asked)
    if total > MAX_TOKENS:
        raise BadInput(f"{total} tokens in all, at most {MAX_TOKENS} are allowed")
    return tuple(_step(one, words) for one in asked)


def check_asked(asked: Asked, words: Mapping[str, int]) -> None:
    """Raise BadInput if this request alone cannot be made."""
    size(asked.prompt, words)
    if asked.answer is None:
        return
    if any(piece.user for piece in asked.answer):
        raise BadInput("a user message cannot start in an answer")
    length = size(asked.answer, words)
    if asked.n_predict is not None and asked.n_predict != length:
        raise BadInput(f"n_predict is {asked.n_predict}, but the answer has {length} tokens")


def _step(asked: Asked, words: Mapping[str, int]) -> Step:
    request = Request(
        prompt=expand(asked.prompt, words),
        n_predict=_predicted(asked, words),
        forced=None if asked.answer is None else expand(asked.answer, words),
        cache_prompt=asked.cache_prompt,
        id_slot=asked.id_slot,
        user_starts=user_starts(asked.prompt, words),
    )
    return Step(request, _text(asked, words), asked.why)


def _predicted(asked: Asked, words: Mapping[str, int]) -> int:
    if asked.answer is not None:
        return size(asked.answer, words)
    return 1 if asked.n_predict is None else asked.n_predict


def _text(asked: Asked, words: Mapping[str, int]) -> str:
    """The canonical notation of the request: prompt, then only what is not the default."""
    text = written(asked.prompt, words)
    if asked.answer is not None:
        text += f">{written(asked.answer, words)}"
    elif _predicted(asked, words) != 1:
        text += f">{asked.n_predict}"
    if not asked.cache_prompt:
        text += "!"
    return text if asked.id_slot < 0 else f"{text}@{asked.id_slot}"
