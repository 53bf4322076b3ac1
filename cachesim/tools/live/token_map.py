"""Which tokens of a real vocabulary stand for the words of a scenario?

A scenario numbers the tokens of its words apart, and a real model has a few hundred of them. What decides in a cache is
where two texts part: so two tokens of a scenario that stand behind the same prefix get two different tokens, everything
else is drawn from a fixed order. A token keeps what it was given. The answer is the model's own: what it generated
stands for the words of the answer from then on.
"""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.chat_template import ETHK, THK
from cachesim.engines.shared.vocab import PIECES, THINK
from cachesim.model.hash_mixing import mix_int


class MappedText(NamedTuple):
    """A prompt and its answer in a scenario's tokens; ``marks``: where in it user messages begin."""

    tokens: Tokens
    marks: tuple[int, ...] = ()


class Vocabulary(NamedTuple):
    """A real model's tokens. ``plain`` for words; ``marked`` for those that begin a user message: the text of each,
    ``pieces[token]``, is tokenized to this token alone. ``special``: what a scenario's reserved tokens are."""

    plain: tuple[int, ...]
    marked: tuple[int, ...]
    pieces: Sequence[str]
    special: dict[int, int]


_MARKED = tuple(i for i, text in enumerate(PIECES) if len(text) == 1 and text.isalnum())
TINY = Vocabulary(tuple(range(101, len(PIECES))), _MARKED, PIECES, {THK: THINK[0], ETHK: THINK[1]})
"""The vocabulary of the recorded tiny models."""


class TokenMap:
    """The tokens of one conversation. ``notes``: where the real texts are not as the scenario has them."""

    def __init__(self, texts: Iterable[MappedText], seed: int = 0, vocabulary: Vocabulary = TINY) -> None:
        self.vocabulary, self.seed = vocabulary, seed
        self.given: dict[int, int] = {}
        self.answered: set[int] = set()
        self.notes: list[str] = []
        known = list(texts)
        self.marked = {text.tokens[at] for text in known for at in text.marks}
        self.rivals = _rivals([text.tokens for text in known])

    def prompt(self, text: MappedText) -> Tokens:
        """The prompt in real tokens. Raises BadInput if the vocabulary is too small for it."""
        return tuple(self._token(token) for token in text.tokens)

    def delimiters(self, text: MappedText) -> list[dict[str, str]]:
        """What a request says so that the server finds the user messages: each begins with a token of its own."""
        real = self.prompt(text)
        firsts = list(dict.fromkeys(real[at] for at in text.marks))
        found = [i for i, token in enumerate(real) if token in firsts]
        if firsts and found != list(text.marks):
            self._note("a token that begins a user message also stands where none begins")
        unclear = [token for token in firsts if token not in self.vocabulary.marked]
        if unclear:
            self._note("a user message begins with generated tokens: it is not marked")
        return [{"role": "user", "delimiter": self.vocabulary.pieces[token]}
                for token in firsts if token in self.vocabulary.marked]  # fmt: skip

    def heard(self, answer: Sequence[int], generated: Sequence[int]) -> None:
        """The model has answered: its tokens stand for the answer's from now on. ``generated`` may be shorter (the
        client hung up, the context was full): the rest of the answer is words like others then."""
        if len(generated) < len(answer):
            self._note(f"an answer of {len(answer)} tokens came to {len(generated)}")
        for mine, real in zip(answer, generated, strict=False):
            if self.given.get(mine, real) != real:
                self._note("a word was used before it was answered, or answered twice: later it is the newer answer")
            self.given[mine] = real
            self.answered.add(mine)
            if any(self.given.get(rival) == real for rival in self.rivals.get(mine, ())):
                self._note("an answer goes on with the token of another text behind the same prefix")

    def _token(self, token: int) -> int:
        """What stands for a scenario's token; chosen when it is first needed."""
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
            raise BadInput(f"more than {len(pool)} texts go on differently behind the same prefix")
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def _rivals(texts: Sequence[Tokens]) -> dict[int, set[int]]:
    """Tokens that stand behind the same prefix in two texts: they have to differ."""
    found: dict[int, set[int]] = {}
    for i, text in enumerate(texts):
        for other in texts[:i]:
            n = common_prefix(text, other)
            if n < min(len(text), len(other)):
                found.setdefault(text[n], set()).add(other[n])
                found.setdefault(other[n], set()).add(text[n])
    return found
