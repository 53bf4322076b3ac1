"""Single reductions of a case: every case that lacks a single element or has a single smaller number.

Shrinking by vectors (shrink_vector.py) is fast but cannot express all reductions; these are tried afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Iterator

from cachesim.scenarios.notation.normalise import clipped
from cachesim.scenarios.notation.shrink_vector import ShrinkCase, fitting, sound
from cachesim.scenarios.notation.tree import PLAIN, Action, LineRequest, Piece, Pieces, ScenarioLine, map_texts
from cachesim.scenarios.notation.word_lengths import shortened

LEAST = {"n_predict": 2, "cancel_after": 0, "after": 0, "n_cmpl": 2, "draft_else": 1, "n_keep": 1, "n_discard": 1,
         "n_cache_reuse": 0, "id_slot": 0}  # fmt: skip
"""Numeric fields of a request, with the smallest value that differs from their default."""
SWITCHES = ("cache_prompt", "task", "together", "seed", "answers", "answer", "drafts", *LEAST)


def simpler(case: ShrinkCase) -> Iterator[ShrinkCase]:
    """Yield every case that is a single reduction smaller."""
    line = case.line
    for i, step in enumerate(line.steps):
        yield case._replace(line=_with(line, i))
        for smaller in _actions(step) if isinstance(step, Action) else _requests(step):
            yield case._replace(line=_with(line, i, smaller))
    for name in case.options:
        yield case._replace(options=tuple(option for option in case.options if option != name))
    for word, length in line.words.items():
        for less in sorted({0, 1, length // 2, length - 1} - {length}):
            for front, end in ((0, 0), (0, length - less), (length - less, length - less)):
                yield case._replace(line=_shortened(line, word, less, front, end))


def _with(line: ScenarioLine, number: int, *instead: LineRequest | Action) -> ScenarioLine:
    """Return the line with step ``number`` replaced, or removed without ``instead``."""
    steps = (fitting(step, line.words) if isinstance(step, LineRequest) else step for step in instead)
    return sound(line._replace(steps=(*line.steps[:number], *steps, *line.steps[number + 1 :])))


def _actions(step: Action) -> Iterator[Action]:
    """Yield reductions of an action: without an option, or on slot 0."""
    for name, _ in step.server:
        yield replace(step, server=tuple(option for option in step.server if option[0] != name))
    if step.id_slot > 0:
        yield replace(step, id_slot=0)


def _requests(step: LineRequest) -> Iterator[LineRequest]:
    """Yield reductions of a request: without a field, with a smaller number, without a piece or mark."""
    for name in SWITCHES:
        if getattr(step, name) != getattr(PLAIN, name):
            for value in (getattr(PLAIN, name), *_lower(name, getattr(step, name))):
                yield step._replace(**{name: value, **_following(name, value, step)})
    for i in range(len(step.extra)):
        yield step._replace(extra=(*step.extra[:i], *step.extra[i + 1 :]))
    for prompt in _texts(step.prompt):
        if prompt:
            yield step._replace(prompt=prompt)
    for i, (role, text) in enumerate(step.chat):
        if len(step.chat) > 1:
            yield step._replace(chat=step.chat[:i] + step.chat[i + 1 :])
        for shorter in _texts(text):
            yield step._replace(chat=(*step.chat[:i], (role, shorter), *step.chat[i + 1 :]))
    for answer in _texts(step.answer or ()):
        if answer:
            yield step._replace(answer=answer)


def _following(name: str, value: Any, step: LineRequest) -> dict[str, Any]:
    """Return the other fields that must change with a field."""
    if name == "n_cmpl":
        return {"answers": step.answers[: value - 1]}
    return {"after": 0} if name == "together" else {}


def _lower(name: str, value: Any) -> Iterator[Any]:
    """Yield smaller values of a field."""
    if name == "answers":
        yield from (value[:i] + value[i + 1 :] for i in range(len(value)))
    elif name == "drafts":
        for i, (drafted, accepted) in enumerate(value):
            yield value[:i] + value[i + 1 :]
            for pair in ((drafted // 2, min(accepted, drafted // 2)), (drafted - 1, min(accepted, drafted - 1)),
                         (drafted, 0)):  # fmt: skip
                if 0 <= sum(pair) < drafted + accepted:
                    yield (*value[:i], pair, *value[i + 1 :])
    elif name in LEAST:
        yield from sorted({LEAST[name], value // 2, value - 1} & set(range(LEAST[name], value)))


def _texts(text: Pieces) -> Iterator[Pieces]:
    """Yield reductions of a text: without a piece, without a mark, or with a shorter slice."""
    for i, piece in enumerate(text):
        yield text[:i] + text[i + 1 :]
        if piece.user:
            yield (*text[:i], piece._replace(user=False), *text[i + 1 :])
        if piece.stop is not None:
            least = (piece.start or 0) + 1
            for stop in sorted({least, (least + piece.stop) // 2, piece.stop - 1} & {*range(least, piece.stop)}):
                yield (*text[:i], piece._replace(stop=stop), *text[i + 1 :])


def _shortened(line: ScenarioLine, word: str, less: int, front: int, end: int) -> ScenarioLine:
    """Return the line with a word of length ``less`` whose slices start ``front`` and end ``end`` tokens earlier."""
    words = {**line.words, word: shortened(line.words[word], less)}

    def change(text: Pieces) -> Pieces:
        return clipped(tuple(_earlier(piece, front, end) if piece.word == word else piece for piece in text), words)

    steps: list[LineRequest | Action] = []
    for step in line.steps:
        if isinstance(step, LineRequest):
            before, step = step, map_texts(step, change)
            if before.prompt and not step.prompt:
                continue
            step = fitting(step, words)
        steps.append(step)
    return sound(ScenarioLine(words, tuple(steps)))


def _earlier(piece: Piece, front: int, end: int) -> Piece:
    start, stop = (None if at is None else max(at - by, 0) for at, by in ((piece.start, front), (piece.stop, end)))
    return piece._replace(start=start, stop=stop)
