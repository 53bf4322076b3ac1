"""How do words become tokens? The token numbers of each word, and words that are spelled out in pieces of text.

The same word is the same tokens everywhere; two words never share a token, unless they are spelled out.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.chat import THK
from cachesim.engines.shared.vocab import PIECES
from cachesim.scenarios.notation.tree import Pieces
from cachesim.scenarios.notation.words import THINK, span

FIRST = 1_000                # smaller numbers are left to the engines' special tokens
STRIDE = 1_000_000           # tokens reserved per word; no word may be longer


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


def expand(pieces: Pieces, words: Mapping[str, int], made: dict[str, Tokens] | None = None) -> Tokens:
    """The tokens of the pieces. A word's tokens depend on its place in ``words`` only, not on any length. ``made``
    keeps whole words, so that prompts share their tokens: a place of a prompt costs 8 bytes then, not 40."""
    made = {} if made is None else made
    spelled = words.spelled if isinstance(words, Words) else {}
    out: list[int] = []
    for piece in pieces:
        start, stop = span(piece, words)
        if piece.word not in made:
            first = THK if piece.word == THINK else FIRST + STRIDE * list(words).index(piece.word)
            whole = range(first, first + words[piece.word])
            made[piece.word] = spelled[piece.word] if piece.word in spelled else tuple(whole)
        out.extend(made[piece.word][start:stop])
    return tuple(out)
