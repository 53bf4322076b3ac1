"""How do words become tokens? Parsing of ``S.|U[2:9].A`` and the token numbers of each word.

Word: a name with a length in tokens. Piece: a word, or a slice of one, at one place of a prompt.
The same word is the same tokens everywhere; two words never share a token, unless they are spelled out.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.engines.chat import THK
from cachesim.engines.shared.vocab import PIECES
from cachesim.errors import BadInput, nearest, quoted
from cachesim.limits import WORD_LENGTH
from cachesim.tokens import Tokens

THINK = "THINK"              # a word of this name is the one token that opens a thought
FIRST = 1_000                # smaller numbers are left to the engines' special tokens
STRIDE = 1_000_000           # tokens reserved per word; no word may be longer

NAME = re.compile(r"[A-Za-z_]+")
_PIECE = re.compile(r"(\|?)([A-Za-z_]+)([0-9]{0,9})(?:\[([0-9]{0,9}):([0-9]{0,9})\])?")


class Piece(NamedTuple):
    """``start`` and ``stop`` as written, None where left out; ``length`` only where a length is written."""

    word: str
    user: bool
    length: int | None
    start: int | None
    stop: int | None


def parse_pieces(text: str) -> tuple[Piece, ...]:
    """The words of a prompt or of an answer. Raises BadInput on anything that is not one."""
    if not text.strip():
        raise BadInput("no words (write at least one, such as S40)")
    return tuple(_piece(part.strip()) for part in text.split("."))


def _piece(part: str) -> Piece:
    match = _PIECE.fullmatch(part)
    if match is None:
        raise BadInput(f"{quoted(part)} is not a word (letters, then an optional slice such as [2:9])")
    bar, word, length, start, stop = match.groups()
    if start == "" and stop == "":
        raise BadInput(f"{quoted(part)}: an empty slice (leave it out for the whole word)")
    return Piece(word, bool(bar), _number(length), _number(start), _number(stop))


def _number(text: str | None) -> int | None:
    return int(text) if text else None


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
    """First index and end of the piece within its word, checked against the word's length."""
    if piece.word not in words:
        raise BadInput(f"word {quoted(piece.word)} has no length", hint=nearest(piece.word, words))
    length = words[piece.word]
    start = piece.start or 0
    stop = length if piece.stop is None else piece.stop
    if not 0 <= start < stop <= length:
        raise BadInput(f"slice {piece.word}[{start}:{stop}] is out of range (the word has {length} tokens)")
    return start, stop


class Words(dict[str, int]):
    """Lengths by word. ``spelled`` are the tokens of those words that are given piece by piece, as texts of the
    recorded models' vocabulary: two words may then be the same text in other tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.spelled: dict[str, Tokens] = {}

    def spell(self, name: str, texts: Sequence[Any]) -> None:
        """Enter a word by its pieces. Raises BadInput for one that the vocabulary lacks."""
        known = {text: token for token, text in enumerate(PIECES)}
        for text in texts:
            if not isinstance(text, str) or text not in known:
                raise BadInput(f"word {quoted(name)}: {quoted(text)} is not a piece of the recorded vocabulary")
        self.spelled[name] = tuple(known[text] for text in texts)
        self[name] = len(self.spelled[name])


def expand(pieces: tuple[Piece, ...], words: Mapping[str, int], made: dict[str, Tokens] | None = None) -> Tokens:
    """The tokens of the pieces. A word's tokens depend on its place in ``words`` only, not on any length. ``made``
    keeps whole words, so that prompts share their tokens: a place of a prompt costs 8 bytes then, not 40."""
    made = {} if made is None else made
    first = {word: THK if word == THINK else FIRST + STRIDE * k for k, word in enumerate(words)}
    spelled = words.spelled if isinstance(words, Words) else {}
    out: list[int] = []
    for piece in pieces:
        start, stop = span(piece, words)
        if piece.word not in made:
            whole = range(first[piece.word], first[piece.word] + words[piece.word])
            made[piece.word] = spelled[piece.word] if piece.word in spelled else tuple(whole)
        out.extend(made[piece.word][start:stop])
    return tuple(out)


def size(pieces: tuple[Piece, ...], words: Mapping[str, int]) -> int:
    """How many tokens ``expand`` would give, without making them."""
    return sum(stop - start for start, stop in (span(piece, words) for piece in pieces))


def user_starts(pieces: tuple[Piece, ...], words: Mapping[str, int]) -> tuple[int, ...]:
    """Indices in the expanded prompt at which a user message begins."""
    starts: list[int] = []
    at = 0
    for piece in pieces:
        if piece.user:
            starts.append(at)
        start, stop = span(piece, words)
        at += stop - start
    return tuple(starts)


def written(pieces: tuple[Piece, ...], words: Mapping[str, int]) -> str:
    """The pieces in their one canonical spelling, without lengths."""
    return ".".join(_written(piece, words) for piece in pieces)


def _written(piece: Piece, words: Mapping[str, int]) -> str:
    start, stop = span(piece, words)
    whole = start == 0 and stop == words[piece.word]
    cut = "" if whole else f"[{start or ''}:{'' if stop == words[piece.word] else stop}]"
    return f"{'|' if piece.user else ''}{piece.word}{cut}"
