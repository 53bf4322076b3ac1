"""Mapping of a scenario's tokens to tokens of a real vocabulary.

A scenario has distinct token numbers for each of its words, while a tiny model has a few hundred tokens. A cache
depends only on where two texts diverge. So two scenario tokens that follow an equal prefix get two different real
tokens; all others are drawn from a fixed order. A token keeps its mapping. Generated tokens replace the words of the
answer from then on. """

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.media_items import exchanged, is_item
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.chat_template import ETHK, THK
from cachesim.engines.shared.vocab import PIECES, THINK
from cachesim.model.hash_mixing import mix_int


class MappedText(NamedTuple):
    """A prompt and its answer in a scenario's tokens; ``marks``: positions where user messages begin."""

    tokens: Tokens
    marks: tuple[int, ...] = ()


class Vocabulary(NamedTuple):
    """Tokens of a real model. ``plain``: for words; ``marked``: for the first token of user messages: its text
    ``pieces[token]`` is tokenized to this token alone. ``special``: mapping of a scenario's reserved tokens."""

    plain: tuple[int, ...]
    marked: tuple[int, ...]
    pieces: Sequence[str]
    special: dict[int, int]


_MARKED = tuple(i for i, text in enumerate(PIECES) if len(text) == 1 and text.isalnum())
TINY = Vocabulary(tuple(range(101, len(PIECES))), _MARKED, PIECES, {THK: THINK[0], ETHK: THINK[1]})
"""Vocabulary of the recorded tiny models."""


class TokenMap:
    """Token mapping of a conversation. ``notes``: differences between the real texts and the scenario."""

    def __init__(self, texts: Iterable[MappedText], seed: int = 0, vocabulary: Vocabulary = TINY) -> None:
        self.vocabulary, self.seed = vocabulary, seed
        self.given: dict[int, int] = {}
        self.notes: list[str] = []
        known = list(texts)
        self.marked = {text.tokens[at] for text in known for at in text.marks}
        self.rivals = _rivals([text.tokens for text in known])

    def prompt(self, text: MappedText) -> Tokens:
        """Return the prompt in real tokens. Raise BadInput if the vocabulary is too small."""
        return tuple(self._token(token) for token in text.tokens)

    def delimiters(self, text: MappedText) -> list[dict[str, str]]:
        """Return the ``message_delimiters`` field of a request: each user message begins with a distinct token."""
        real = self.prompt(text)
        firsts = list(dict.fromkeys(real[at] for at in text.marks))
        found = [i for i, token in enumerate(real) if token in firsts]
        if firsts and found != list(text.marks):
            self._note("a token that begins a user message also occurs elsewhere")
        unclear = [token for token in firsts if token not in self.vocabulary.marked]
        if unclear:
            self._note("a user message that begins with generated tokens is not marked")
        return [{"role": "user", "delimiter": self.vocabulary.pieces[token]}
                for token in firsts if token in self.vocabulary.marked]  # fmt: skip

    def heard(self, answer: Sequence[int], generated: Sequence[int]) -> None:
        """Map the tokens of an answer to the generated tokens from now on. ``generated`` may be shorter (the client
        disconnected, the context was full); the rest of the answer is then mapped like any word."""
        if len(generated) < len(answer):
            self._note(f"{len(generated)} of {len(answer)} tokens of an answer were generated")
        for mine, real in zip(answer, generated, strict=False):
            if self.given.get(mine, real) != real:
                self._note("a word was used before it was answered, or answered twice: the newer answer counts later")
            self.given[mine] = real
            if any(self.given.get(rival) == real for rival in self.rivals.get(mine, ())):
                self._note("an answer continues with the token of another text after an equal prefix")

    def _token(self, token: int) -> int:
        """Return the real token of a scenario's token; chosen at its first use."""
        if is_item(token):
            return exchanged(token, mix_int(self.seed))
        if token in self.vocabulary.special:
            return self.vocabulary.special[token]
        if token < len(self.vocabulary.pieces):
            return token                         # spelled out by its piece
        if token not in self.given:
            self.given[token] = self._chosen(token)
        return self.given[token]

    def _chosen(self, token: int) -> int:
        pool = self.vocabulary.marked if token in self.marked else self.vocabulary.plain
        taken = {self.given[rival] for rival in self.rivals.get(token, ()) if rival in self.given}
        start = mix_int(mix_int(self.seed) ^ token)
        found = next((real for i in range(len(pool)) if (real := pool[(start + i) % len(pool)]) not in taken), None)
        if found is None:
            raise BadInput(f"more than {len(pool)} texts diverge after one prefix")
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _rivals(texts: Sequence[Tokens]) -> dict[int, set[int]]:
    """Return the tokens that follow an equal prefix in two texts: they must differ."""
    found: dict[int, set[int]] = {}
    for i, text in enumerate(texts):
        for other in texts[:i]:
            n = common_prefix(text, other)
            if n < min(len(text), len(other)):
                found.setdefault(text[n], set()).add(other[n])
                found.setdefault(other[n], set()).add(text[n])
    return found
