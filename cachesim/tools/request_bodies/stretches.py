"""Prompts as stretches of words: what is shared with an earlier text is its words, what is new is a new word.

No text is in it, only lengths in tokens, and where the newest user message begins.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple, Sequence

from cachesim.scenarios.notation.tidy import letters
from cachesim.scenarios.notation.tree import Asked, Piece


class WordPart(NamedTuple):
    """The first ``take`` of a word's ``full`` tokens; ``user``: a user message begins there."""

    word: str
    take: int
    full: int
    user: bool = False

    def piece(self) -> Piece:
        """It in the notation."""
        return Piece(self.word, self.user, None, None if self.take == self.full else self.take)


def first(text: Sequence[WordPart], tokens: int) -> list[WordPart]:
    """The beginning of a text, of at most so many tokens."""
    out = []
    for one in text:
        if tokens <= 0:
            break
        out.append(one._replace(take=min(one.take, tokens)))
        tokens -= one.take
    return out


def size(text: Sequence[WordPart]) -> int:
    """The length of a text in tokens."""
    return sum(one.take for one in text)


class TokenRequest(NamedTuple):
    """A request in tokens: its ``prompt``, of which ``common`` are shared with the text that request ``base`` left (its
    prompt and ``answer``), -1 = with none; the newest user message begins behind ``user`` tokens, -1 = not known.
    ``returned``: of the answer, so many tokens come back as they were generated."""

    prompt: int
    base: int
    common: int
    answer: int
    user: int = -1


class ScenarioWords:
    """The words of a scenario, as they are made."""

    def __init__(self) -> None:
        self.words: dict[str, int] = {}
        self.texts: list[list[WordPart]] = []
        self.names = map(letters, count())

    def add(self, asking: TokenRequest) -> Asked:
        """One more request."""
        base = self.texts[asking.base] if asking.base >= 0 else []
        prompt = first(base, asking.common)
        at = size(prompt)
        cuts = [cut for cut in (asking.user,) if at < cut < asking.prompt]
        for stop in (*cuts, asking.prompt):
            if stop > at:
                prompt.append(self._new(stop - at, user=at == asking.user))
                at = stop
        name = next(self.names).lower()
        answer = WordPart(self._word(name, asking.answer), asking.answer, asking.answer)
        self.texts.append([*prompt, answer])
        return Asked(tuple(one.piece() for one in prompt), (answer.piece(),))

    def _new(self, tokens: int, user: bool) -> WordPart:
        return WordPart(self._word(next(self.names), tokens), tokens, tokens, user)

    def _word(self, name: str, tokens: int) -> str:
        self.words[name] = tokens
        return name
