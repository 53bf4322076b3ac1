"""Normalisation of lines: split words at slices, merge words that always occur together, rename words A, B, C.

These transformations preserve the tokens that texts share. Only ``unmarked`` removes the marks of user messages. Also
checks whether a request is possible although each of its values is valid.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Mapping

from cachesim.base.errors import BadInput, counted, quoted
from cachesim.scenarios.notation.tree import LineRequest, Piece, Pieces, ScenarioLine, map_step_texts, texts, used
from cachesim.scenarios.notation.word_lengths import FIXED, ImageSize, predicted, prompt_size, size, span


def check_asked(step: LineRequest, words: Mapping[str, int]) -> None:
    """Raise BadInput if a request is invalid by itself."""
    prompt_size(step, words)
    for text in (step.answer or (), *step.answers):
        for piece in text:
            check_answer(piece, words)
    check_lengths(step, words)


def check_answer(piece: Piece, words: Mapping[str, int]) -> None:
    """Raise BadInput unless a piece is valid in an answer."""
    if piece.user:
        raise BadInput("a user message cannot start in an answer")
    span(piece, words)
    if isinstance(words[piece.word], ImageSize):
        raise BadInput(f"{quoted(piece.word)} is an image, which no answer has")


def check_lengths(step: LineRequest, words: Mapping[str, int]) -> None:
    """Raise BadInput unless the numbers of a request fit the length of its answer."""
    length = predicted(step, words)
    if step.answer is not None and step.n_predict not in (None, length):
        raise BadInput(f"n_predict is {step.n_predict}, but the answer has {length} tokens")
    if len(step.answers) >= step.n_cmpl > 0 and step.answers:
        found = counted(len(step.answers), "entry", "entries")
        raise BadInput(f"answers has {found}, expected at most {step.n_cmpl - 1}: one for each completion after the "
                       f"first (n_cmpl is {step.n_cmpl})")  # fmt: skip
    if any(size(text, words) != length for text in step.answers):
        raise BadInput(f"every completion has {length} tokens, so every entry of answers must have {length}")
    if step.cancel_after is not None and step.cancel_after >= length >= 0:
        raise BadInput(f"cancel_after is {step.cancel_after}, but the answer ends after {length} tokens")


def clipped(pieces: Pieces, words: Mapping[str, int]) -> Pieces:
    """Return pieces cut to the lengths of their words, without empty pieces."""
    out = []
    for piece in pieces:
        n = words[piece.word]
        start = min(piece.start or 0, n)
        stop = n if piece.stop is None else min(piece.stop, n)
        if start < stop:
            out.append(piece._replace(start=start or None, stop=None if stop == n else stop))
    return tuple(out)


def renamed(line: ScenarioLine) -> ScenarioLine:
    """Return the line with its words renamed to A, B, C in the order of first use."""
    return _rename(line, {word: letters(i) for i, word in enumerate(word for word in used(line) if word not in FIXED)})


def renamed_apart(line: ScenarioLine) -> ScenarioLine:
    """Return the line with its words renamed in the order of first use: A, B, C, or a, b, c if the first use is in an
    answer."""
    names: dict[str, str] = {}
    for step in (step for step in line.steps if isinstance(step, LineRequest)):
        prompts = texts(step._replace(answer=None, answers=()))
        for number, text in enumerate(texts(step)):
            in_answer = number >= len(prompts)
            for word in (piece.word for piece in text if piece.word not in FIXED and piece.word not in names):
                n = sum(name.islower() == in_answer for name in names.values())
                names[word] = letters(n).lower() if in_answer else letters(n)
    return _rename(line, names)


def _rename(line: ScenarioLine, names: Mapping[str, str]) -> ScenarioLine:
    def change(text: Pieces) -> Pieces:
        return tuple(piece._replace(word=names.get(piece.word, piece.word)) for piece in text)

    words = {names.get(word, word): line.words[word] for word in used(line)}
    return ScenarioLine(words, tuple(map_step_texts(step, change) for step in line.steps))


def split(line: ScenarioLine) -> ScenarioLine:
    """Return the line without slices: each word is split at all bounds of its slices into several words."""
    ends: dict[str, set[int]] = {word: {0, n} for word, n in line.words.items()}
    for piece in (piece for step in line.steps for text in texts(step) for piece in text):
        ends[piece.word] |= set(span(piece, line.words))
    cuts = {word: list(pairwise(sorted(found))) for word, found in ends.items()}
    between = "_" * (1 + max((len(run) for word in line.words for run in re.findall("_+", word)), default=0))

    def part(word: str, number: int) -> str:
        return f"{word}{between}{letters(number)}" if len(cuts[word]) > 1 else word

    def change(text: Pieces) -> Pieces:
        out: list[Piece] = []
        for piece in text:
            start, stop = span(piece, line.words)
            parts = [part(piece.word, i) for i, (a, b) in enumerate(cuts[piece.word]) if start <= a and b <= stop]
            out += [Piece(name, piece.user and i == 0) for i, name in enumerate(parts)]
        return tuple(out)

    words = {part(word, i): b - a if len(found) > 1 else line.words[word]
             for word, found in cuts.items() for i, (a, b) in enumerate(found)}  # fmt: skip
    return ScenarioLine(words, tuple(map_step_texts(step, change) for step in line.steps))


def unmarked(line: ScenarioLine) -> ScenarioLine:
    """Return the line without marks of user messages."""
    steps = (map_step_texts(step, lambda text: tuple(piece._replace(user=False) for piece in text))
             for step in line.steps)  # fmt: skip
    return line._replace(steps=tuple(steps))


def merged(line: ScenarioLine) -> ScenarioLine:
    """Return the line with pairs of words merged that only occur in sequence, whole and without a mark between them."""
    while (fewer := _merge_pair(line)) is not None:
        line = fewer
    return line


def _merge_pair(line: ScenarioLine) -> ScenarioLine | None:
    """Return the line with a pair of words merged, None without such a pair."""
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    # Words that cannot be merged: single tokens, images and sliced words.
    apart = {*FIXED, *(word for word, length in line.words.items() if isinstance(length, ImageSize))}
    for text in (text for step in line.steps for text in texts(step)):
        words = ["", *(piece.word for piece in text), ""]
        for left, word, right in zip(words, words[1:], words[2:], strict=False):
            before.setdefault(word, set()).add(left)
            after.setdefault(word, set()).add(right)
        apart |= {piece.word for piece in text if piece[2:] != (None, None)}
    marked = {piece.word for step in line.steps for text in texts(step) for piece in text if piece.user}
    for first in line.words:
        second = next(iter(after.get(first, ())), "")
        together = after.get(first) == {second} and before.get(second) == {first}
        if together and second not in marked and first != second and not {first, second} & apart:
            return _merge(line, first, second)
    return None


def _merge(line: ScenarioLine, first: str, second: str) -> ScenarioLine:
    def change(text: Pieces) -> Pieces:
        return tuple(piece for piece in text if piece.word != second)

    words = {word: n + line.words[second] if word == first else n for word, n in line.words.items() if word != second}
    return ScenarioLine(words, tuple(map_step_texts(step, change) for step in line.steps))


def letters(i: int) -> str:
    """Return the name of word number ``i``: A to Z, AA, AB ..."""
    return (letters(i // 26 - 1) if i >= 26 else "") + chr(ord("A") + i % 26)
