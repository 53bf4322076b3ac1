"""Lengths of words, slices, prompts and answers, and the canonical form of slices."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Mapping, Self

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.limits import WORD_LENGTH
from cachesim.base.media_items import MOST
from cachesim.scenarios.notation.tree import (
    Action,
    LineRequest,
    Piece,
    Pieces,
    ScenarioLine,
    map_step_texts,
    texts,
    used,
)

THINK, NULL = "THINK", "NULL"
FIXED: Mapping[str, str] = {THINK: "the think token", NULL: "the token -1, which no model has"}
"""Names of words that stand for a single token."""
NAME = re.compile(r"[A-Za-z_]+")
LENGTH = r"[0-9]{1,9}(?:x[0-9]{1,4})?"
"""Length of a word in a line."""


class ImageSize(int):
    """Length of a word that is an image: the tokens in its ``columns`` and ``rows``. Written as 4x2."""

    columns: int
    rows: int

    def __new__(cls, columns: int, rows: int) -> Self:
        made = super().__new__(cls, columns * rows)
        made.columns, made.rows = columns, rows
        return made

    def __str__(self) -> str:
        return f"{self.columns}x{self.rows}"

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[int, int]]:
        return type(self), (self.columns, self.rows)


def read_length(text: str) -> int:
    """Return a length [tokens] from ``LENGTH``: a number, or the size of an image."""
    columns, by, rows = text.partition("x")
    return ImageSize(int(columns), int(rows)) if by else int(columns)


def read_image(name: str, text: str) -> ImageSize:
    """Return the size of an image from a file. Raise BadInput."""
    size = read_length(text) if re.fullmatch(LENGTH, text) else None
    if not isinstance(size, ImageSize):
        raise BadInput(f"word {quoted(name)} must be an integer, or the size of an image such as \"4x2\"")
    return size


def shortened(length: int, tokens: int) -> int:
    """Return the length of a word that is cut to a number of tokens. An image remains an image."""
    if not isinstance(length, ImageSize) or not tokens:
        return tokens
    return length if tokens == length else ImageSize(tokens, 1)


def check_word(name: str, length: int) -> None:
    """Raise BadInput unless the name and the length [tokens] of a word are valid."""
    if not NAME.fullmatch(name):
        raise BadInput(f"word {quoted(name)}: expected letters and underscores")
    if name in FIXED and length != 1:
        raise BadInput(f"word {quoted(name)} is {FIXED[name]}: its length is 1, found {length}")
    if length < 1:
        raise BadInput(f"word {quoted(name)}: its length is {length}, it must be at least 1")
    WORD_LENGTH.check(length, f"word {quoted(name)}")
    if isinstance(length, ImageSize) and length > MOST:
        raise BadInput(f"image {quoted(name)} has {length:,} tokens, at most {MOST:,} are possible")


def span(piece: Piece, words: Mapping[str, int]) -> tuple[int, int]:
    """Return start and stop of a piece within its word, checked against the word's length. Raise BadInput."""
    if piece.word not in words:
        raise BadInput(f"word {quoted(piece.word)} has no length", hint=nearest(piece.word, words))
    length = words[piece.word]
    start = piece.start or 0
    stop = length if piece.stop is None else piece.stop
    if not 0 <= start < stop <= length:
        raise BadInput(f"slice {piece.word}[{start}:{stop}] is out of range (the word has {int(length)} tokens)")
    if stop - start < length and isinstance(length, ImageSize):
        raise BadInput(f"slice {piece.word}[{start}:{int(stop)}]: an image cannot be cut")
    return start, stop


def size(pieces: Pieces, words: Mapping[str, int]) -> int:
    """Return the length of a text [tokens]. Raise BadInput."""
    return sum(stop - start for start, stop in (span(piece, words) for piece in pieces))


def prompt_size(step: LineRequest, words: Mapping[str, int]) -> int:
    """Return the length of a prompt, or of a chat without template tokens [tokens]. Raise BadInput."""
    return size(step.prompt, words) + sum(size(text, words) for _, text in step.chat)


def predicted(step: LineRequest, words: Mapping[str, int]) -> int:
    """Return the number of tokens to generate, -1 = until the server ends the answer. Raise BadInput."""
    if step.answer is not None:
        return size(step.answer, words)
    return 1 if step.n_predict is None else step.n_predict


def user_starts(pieces: Pieces, words: Mapping[str, int]) -> tuple[int, ...]:
    """Return the token positions in a prompt at which user messages start."""
    places = accumulate((size((piece,), words) for piece in pieces), initial=0)
    return tuple(at for at, piece in zip(places, pieces, strict=False) if piece.user)


def longest(line: ScenarioLine) -> int:
    """Return the length of the longest request of a line: prompt and answer, without template tokens."""
    sizes = (sum(size(text, line.words) for text in texts(step)) for step in line.steps)
    return max(sizes, default=0)


def canonical(step: LineRequest | Action, words: Mapping[str, int]) -> LineRequest | Action:
    """Return a step in canonical form: without slices that are whole words and without redundant numbers. Raise
    BadInput."""
    step = map_step_texts(step, lambda pieces: tuple(_sliced(piece, words) for piece in pieces))
    if isinstance(step, LineRequest) and (step.answer is not None or step.n_predict == 1):
        return step._replace(n_predict=None)
    return step


def _sliced(piece: Piece, words: Mapping[str, int]) -> Piece:
    start, stop = span(piece, words)
    return piece._replace(start=start or None, stop=None if stop == words[piece.word] else stop)


def normal(line: ScenarioLine) -> ScenarioLine:
    """Return the line as parsed from its own text: canonical steps, and only used words, in the order of first use.
    Token numbers change if the order of the words changes. Raise BadInput."""
    steps = tuple(canonical(step, line.words) for step in line.steps)
    return ScenarioLine({word: line.words[word] for word in used(line)}, steps)
