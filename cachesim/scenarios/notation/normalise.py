"""The same thing said more plainly: words split where they are cut, made one where they only come together, called A,
B, C in the order in which they come.

None of these changes what two texts share; only marks are lost, where they are asked to be.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Mapping

from cachesim.base.errors import BadInput
from cachesim.scenarios.notation.tree import Asked, Piece, Pieces, ScenarioLine, said_as, texts, used
from cachesim.scenarios.notation.word_lengths import THINK, predicted, prompt_size, size, span

# Can this request be made? What is wrong with a step although each of its values is right.

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


def clipped(pieces: Pieces, words: Mapping[str, int]) -> Pieces:
    """Pieces of words that have become shorter: slices end with their word, empty ones go."""
    out = []
    for piece in pieces:
        n = words.get(piece.word, 0)
        start = min(piece.start or 0, n)
        stop = n if piece.stop is None else min(piece.stop, n)
        if start < stop:
            out.append(piece._replace(start=start or None, stop=None if stop == n else stop))
    return tuple(out)


def renamed(line: ScenarioLine) -> ScenarioLine:
    """The line with its words called A, B, C in the order in which they come."""
    return _called(line, {word: letters(i) for i, word in enumerate(one for one in used(line) if one != THINK)})


def renamed_apart(line: ScenarioLine) -> ScenarioLine:
    """The line with its words called A, B, C in the order in which they come; a, b, c where a model says them first."""
    names: dict[str, str] = {}
    for step in (step for step in line.steps if isinstance(step, Asked)):
        asked = texts(step._replace(answer=None, answers=()))
        for number, text in enumerate(texts(step)):
            said = number >= len(asked)
            for word in (piece.word for piece in text if piece.word != THINK and piece.word not in names):
                n = sum(name.islower() == said for name in names.values())
                names[word] = letters(n).lower() if said else letters(n)
    return _called(line, names)


def _called(line: ScenarioLine, names: Mapping[str, str]) -> ScenarioLine:
    def said(text: Pieces) -> Pieces:
        return tuple(piece._replace(word=names.get(piece.word, piece.word)) for piece in text)

    words = {names.get(word, word): line.words[word] for word in used(line)}
    return ScenarioLine(words, tuple(said_as(step, said) for step in line.steps))


def split(line: ScenarioLine) -> ScenarioLine:
    """The line without slices: every word is several words, one from each place where it is cut to the next."""
    ends: dict[str, set[int]] = {word: {0, n} for word, n in line.words.items()}
    for piece in (piece for step in line.steps for text in texts(step) for piece in text):
        ends[piece.word] |= set(span(piece, line.words))
    cuts = {word: list(pairwise(sorted(found))) for word, found in ends.items()}
    between = "_" * (1 + max((len(run) for word in line.words for run in re.findall("_+", word)), default=0))

    def part(word: str, number: int) -> str:
        return f"{word}{between}{letters(number)}" if len(cuts[word]) > 1 else word

    def said(text: Pieces) -> Pieces:
        out: list[Piece] = []
        for piece in text:
            start, stop = span(piece, line.words)
            parts = [part(piece.word, i) for i, (a, b) in enumerate(cuts[piece.word]) if start <= a and b <= stop]
            out += [Piece(name, piece.user and i == 0) for i, name in enumerate(parts)]
        return tuple(out)

    words = {part(word, i): b - a for word, found in cuts.items() for i, (a, b) in enumerate(found)}
    return ScenarioLine(words, tuple(said_as(step, said) for step in line.steps))


def unmarked(line: ScenarioLine) -> ScenarioLine:
    """The line in which no user message is told to begin anywhere."""
    steps = (said_as(step, lambda text: tuple(piece._replace(user=False) for piece in text)) for step in line.steps)
    return line._replace(steps=tuple(steps))


def merged(line: ScenarioLine) -> ScenarioLine:
    """The line with words that only come one behind the other, whole and without a mark between them, made one."""
    while (fewer := _one_less(line)) is not None:
        line = fewer
    return line


def _one_less(line: ScenarioLine) -> ScenarioLine | None:
    """The line with one word less, None where there are no two to be made one."""
    before: dict[str, set[str]] = {}
    behind: dict[str, set[str]] = {}
    apart = {THINK}                          # and words that are cut somewhere
    for text in (text for step in line.steps for text in texts(step)):
        words = ["", *(piece.word for piece in text), ""]
        for left, word, right in zip(words, words[1:], words[2:], strict=False):
            before.setdefault(word, set()).add(left)
            behind.setdefault(word, set()).add(right)
        apart |= {piece.word for piece in text if piece[2:] != (None, None)}
    marked = {piece.word for step in line.steps for text in texts(step) for piece in text if piece.user}
    for first in line.words:
        second = next(iter(behind.get(first, ())), "")
        together = behind.get(first) == {second} and before.get(second) == {first}
        if together and second not in marked and first != second and not {first, second} & apart:
            return _made_one(line, first, second)
    return None


def _made_one(line: ScenarioLine, first: str, second: str) -> ScenarioLine:
    def said(text: Pieces) -> Pieces:
        return tuple(piece for piece in text if piece.word != second)

    words = {word: n + line.words[second] * (word == first) for word, n in line.words.items() if word != second}
    return ScenarioLine(words, tuple(said_as(step, said) for step in line.steps))


def letters(i: int) -> str:
    """The name of the word with this number: A to Z, AA, AB ..."""
    return (letters(i // 26 - 1) if i >= 26 else "") + chr(ord("A") + i % 26)
