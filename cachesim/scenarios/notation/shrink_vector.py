"""A scenario line encoded as an integer vector for shrinking: 0 drops an element, smaller numbers mean less."""

from __future__ import annotations

from itertools import islice
from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.scenarios.notation.normalise import clipped
from cachesim.scenarios.notation.tree import PLAIN, Action, LineRequest, ScenarioLine, joins, map_texts, used
from cachesim.scenarios.notation.word_lengths import predicted, shortened

FLAGS = ("cache_prompt", "id_slot", "n_cmpl", "cancel_after", "drafts", "draft_else", "together", "seed")
"""Fields that shrinking may reset to their defaults, in the order of the attempts."""
RARE = ("task", "n_keep", "n_discard", "n_cache_reuse", "answers", "n_predict")
"""Further fields that shrinking may reset; most requests do not set them."""


class ShrinkCase(NamedTuple):
    """Object of shrinking: a line, and the names of the server options that are set."""

    line: ScenarioLine
    options: tuple[str, ...] = ()

    @property
    def shrinkable(self) -> ShrinkCase:
        """The shrinkable part: this whole case."""
        return self

    def reduced_to(self, small: ShrinkCase) -> ShrinkCase:
        """Return the case reduced to ``small``."""
        return small


class ShrinkVector(NamedTuple):
    """A case as integers. 1 keeps an element, 0 drops it."""

    steps: tuple[int, ...]
    pieces: tuple[int, ...]         # pieces of prompts and chats
    flags: tuple[int, ...]          # len(FLAGS) per step
    options: tuple[int, ...]        # server options
    words: tuple[int, ...]          # lengths of words [tokens]
    rare: tuple[int, ...] = ()      # RARE fields that are set; for n_predict its value

    @property
    def flat(self) -> tuple[int, ...]:
        """All parts, concatenated."""
        return tuple(n for part in self for n in part)

    def like(self, flat: tuple[int, ...]) -> ShrinkVector:
        """Return a vector with parts of equal lengths from a flat vector."""
        left = iter(flat)
        return ShrinkVector(*(tuple(islice(left, len(part))) for part in self))


def whole(case: ShrinkCase) -> ShrinkVector:
    """Return the vector of a case that keeps everything."""
    line = case.line
    asked = [step for step in line.steps if isinstance(step, LineRequest)]
    texts = (text for step in asked for text in (step.prompt, *(text for _, text in step.chat)))
    rare = ((step, flag) for step in asked for flag in RARE if _has(step, flag))
    return ShrinkVector(
        steps=(1,) * len(line.steps),
        pieces=(1,) * sum(map(len, texts)),
        flags=tuple(int(_has(step, flag)) for step in line.steps for flag in FLAGS),
        options=(1,) * len(case.options),
        words=tuple(line.words.values()),
        rare=tuple(max(1, step.n_predict or 1) if flag == "n_predict" else 1 for step, flag in rare),
    )


def _has(step: LineRequest | Action, flag: str) -> bool:
    return isinstance(step, LineRequest) and bool(getattr(step, flag) != getattr(PLAIN, flag))


def reduced(case: ShrinkCase, row: ShrinkVector) -> ShrinkCase:
    """Return the case reduced to the elements that the vector keeps."""
    lengths = case.line.words
    words = {word: shortened(lengths[word], n) for word, n in zip(lengths, row.words, strict=True)}
    flags = iter(row.flags)
    pieces = iter(row.pieces)
    rare = iter(row.rare)
    steps: list[LineRequest | Action] = []
    for step, stays in zip(case.line.steps, row.steps, strict=True):
        stay = dict(zip(FLAGS, flags, strict=False))
        if isinstance(step, LineRequest):
            stay |= {flag: next(rare) for flag in RARE if _has(step, flag)}
            before, step = step, _smaller(_with_pieces(step, pieces), stay, words)
            emptied = (before.prompt or before.chat) and not (step.prompt or step.chat)
            stays = stays and not emptied
        if stays:
            steps.append(step)
    options = (name for name, stays in zip(case.options, row.options, strict=True) if stays)
    return ShrinkCase(sound(ScenarioLine(words, tuple(steps))), tuple(options))


def _with_pieces(step: LineRequest, stay: Iterator[int]) -> LineRequest:
    """Return the request with only the kept pieces. ``stay``: 1 or 0 per piece."""
    prompt = tuple(piece for piece in step.prompt if next(stay))
    chat = tuple((role, tuple(piece for piece in text if next(stay))) for role, text in step.chat)
    return step._replace(prompt=prompt, chat=chat)


def _smaller(step: LineRequest, stay: Mapping[str, int], words: Mapping[str, int]) -> LineRequest:
    """Return the request without the dropped fields, and with its words cut to their new lengths."""
    gone: dict[str, Any] = {flag: getattr(PLAIN, flag) for flag, stays in stay.items() if not stays}
    if not stay["together"]:
        gone["after"] = 0
    if not stay["n_cmpl"]:
        gone["answers"] = ()
    if (most := stay.get("n_predict", 0)) and step.n_predict:
        gone["n_predict"] = min(most, step.n_predict)
    return fitting(map_texts(step._replace(**gone), lambda text: clipped(text, words)), words)


def fitting(step: LineRequest, words: Mapping[str, int]) -> LineRequest:
    """Return the request without an empty answer, and without a ``cancel_after`` beyond its end."""
    length = predicted(step, words)
    late = step.cancel_after is not None and step.cancel_after >= length >= 0
    return step._replace(answer=step.answer or None, cancel_after=None if late else step.cancel_after)


def sound(line: ScenarioLine) -> ScenarioLine:
    """Return the line without invalid rests of shrinking: ``together`` without a previous request, a restore of a file
    that was not saved, unused words."""
    steps: list[LineRequest | Action] = []
    saved: set[str] = set()
    for step in line.steps:
        if isinstance(step, LineRequest) and step.together and not joins(step, steps):
            step = step._replace(together=False, after=0)
        if isinstance(step, Action) and step.do == "restore" and step.file not in saved:
            continue
        if isinstance(step, Action) and step.do == "save":
            saved.add(step.file)
        steps.append(step)
    words = set(used(line._replace(steps=tuple(steps))))
    return ScenarioLine({word: n for word, n in line.words.items() if word in words}, tuple(steps))
