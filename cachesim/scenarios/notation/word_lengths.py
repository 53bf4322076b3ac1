"""How long is what is said? Words with their lengths, the slices of them, and the one way to write a slice."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Mapping

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.limits import WORD_LENGTH
from cachesim.scenarios.notation.tree import Action, Asked, Piece, Pieces, ScenarioLine, said_as, texts, used

THINK = "THINK"              # a word of this name is the one token that opens a thought
NAME = re.compile(r"[A-Za-z_]+")


def check_word(name: str, length: int) -> None:
    """Raise BadInput unless this may be a word of that length."""
    if not NAME.fullmatch(name):
        raise BadInput(f"word {quoted(name)}: a word is made of letters and underscores")
    if name == THINK and length != 1:
        raise BadInput(f"word {quoted(THINK)} is the token that opens a thought, so its length is 1, not {length}")
    if length < 1:
        raise BadInput(f"word {quoted(name)}: its length is {length}, it must be at least 1")
    WORD_LENGTH.check(length, f"word {quoted(name)}")


def span(piece: Piece, words: Mapping[str, int]) -> tuple[int, int]:
    """First index and end of the piece within its word, checked against the word's length. Raises BadInput."""
    if piece.word not in words:
        raise BadInput(f"word {quoted(piece.word)} has no length", hint=nearest(piece.word, words))
    length = words[piece.word]
    start = piece.start or 0
    stop = length if piece.stop is None else piece.stop
    if not 0 <= start < stop <= length:
        raise BadInput(f"slice {piece.word}[{start}:{stop}] is out of range (the word has {length} tokens)")
    return start, stop


def size(pieces: Pieces, words: Mapping[str, int]) -> int:
    """Tokens of a text. Raises BadInput."""
    return sum(stop - start for start, stop in (span(piece, words) for piece in pieces))


def prompt_size(step: Asked, words: Mapping[str, int]) -> int:
    """Tokens of a prompt, or of a chat without what a template adds. Raises BadInput."""
    return size(step.prompt, words) + sum(size(text, words) for _, text in step.chat)


def predicted(step: Asked, words: Mapping[str, int]) -> int:
    """How many tokens are generated, -1 = until the server ends the answer itself. Raises BadInput."""
    if step.answer is not None:
        return size(step.answer, words)
    return 1 if step.n_predict is None else step.n_predict


def user_starts(pieces: Pieces, words: Mapping[str, int]) -> tuple[int, ...]:
    """Places in the tokens of a prompt at which a user message begins."""
    places = accumulate((size((piece,), words) for piece in pieces), initial=0)
    return tuple(at for at, piece in zip(places, pieces, strict=False) if piece.user)


def longest(line: ScenarioLine) -> int:
    """The longest request of a line, prompt and answer, without what a template adds."""
    sizes = (sum(size(text, line.words) for text in texts(step)) for step in line.steps)
    return max(sizes, default=0)


def canonical(step: Asked | Action, words: Mapping[str, int]) -> Asked | Action:
    """The step as it is written: no slice that is the whole word, no number that says nothing new. Raises BadInput."""
    step = said_as(step, lambda pieces: tuple(_sliced(piece, words) for piece in pieces))
    if isinstance(step, Asked) and (step.answer is not None or step.n_predict == 1):
        return step._replace(n_predict=None)
    return step


def _sliced(piece: Piece, words: Mapping[str, int]) -> Piece:
    start, stop = span(piece, words)
    return piece._replace(start=start or None, stop=None if stop == words[piece.word] else stop)


def normal(line: ScenarioLine) -> ScenarioLine:
    """The line that is read back from its text: every step canonical, words in the order of their first use and none
    besides. Its tokens have other numbers where the words were in another order. Raises BadInput."""
    steps = tuple(canonical(step, line.words) for step in line.steps)
    return ScenarioLine({word: line.words[word] for word in used(line)}, steps)
