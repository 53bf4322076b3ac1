"""Can this request be made? What is wrong with a step although each of its values is right."""

from __future__ import annotations

from typing import Mapping

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.tree import Asked, Piece
from cachesim.scenarios.notation.words import predicted, prompt_size, size, span


def check_asked(step: Asked, words: Mapping[str, int]) -> None:
    """Raise BadInput if this request alone cannot be made."""
    prompt_size(step, words)
    for text in (step.answer or (), *step.answers):
        for piece in text:
            check_answer(piece, words)
    check_lengths(step, words)


def check_answer(piece: Piece, words: Mapping[str, int]) -> None:
    """Raise BadInput unless a piece may stand in an answer."""
    if piece.user:
        raise BadInput("a user message cannot start in an answer")
    span(piece, words)


def check_lengths(step: Asked, words: Mapping[str, int]) -> None:
    """Raise BadInput unless the numbers of a request fit its answer, whose pieces are right."""
    length = predicted(step, words)
    if step.answer is not None and step.n_predict not in (None, length):
        raise BadInput(f"n_predict is {step.n_predict}, but the answer has {length} tokens")
    if len(step.answers) >= step.n_cmpl > 0 and step.answers:
        raise BadInput(f"answers are those of the further completions: {step.n_cmpl - 1} with n_cmpl {step.n_cmpl}")
    if any(size(text, words) != length for text in step.answers):
        raise BadInput(f"every completion has {length} tokens, so must each of answers")
    if step.cancel_after is not None and step.cancel_after >= length >= 0:
        raise BadInput(f"cancel_after is {step.cancel_after}, but the answer ends after {length} tokens")
