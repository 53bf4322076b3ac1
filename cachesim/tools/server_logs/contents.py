"""What does a slot hold, in words? Texts that are cut and continued, and the notation of a prompt made of them."""

from __future__ import annotations

from itertools import count
from typing import Iterator, NamedTuple

from cachesim.scenarios.notation.tidy import letters


class WordRange(NamedTuple):
    """``take`` of a word's ``full`` tokens, from ``start`` on."""

    word: str
    take: int
    full: int
    start: int = 0


class SlotText(NamedTuple):
    """A text as parts of words; ``prompt``: tokens of it that were the prompt of the request which left it."""

    parts: tuple[WordRange, ...] = ()
    prompt: int = 0

    @property
    def size(self) -> int:
        """Its length in tokens."""
        return sum(part.take for part in self.parts)

    def first(self, tokens: int) -> SlotText:
        """Its beginning of at most so many tokens."""
        kept, left = [], tokens
        for part in self.parts:
            if left <= 0:
                break
            kept.append(part._replace(take=min(part.take, left)))
            left -= part.take
        return SlotText(tuple(kept), min(self.prompt, tokens))

    def goes_on(self, other: SlotText, start: int, stop: int) -> SlotText:
        """It, and a piece of another text behind it."""
        parts, at = list(self.parts), 0
        for part in other.parts:
            low, high = max(start - at, 0), min(stop - at, part.take)
            if low < high:
                parts.append(part._replace(take=high - low, start=part.start + low))
            at += part.take
        return self._replace(parts=tuple(parts))

    def then(self, word: str, tokens: int) -> SlotText:
        """It, and a new word behind it."""
        return self._replace(parts=(*self.parts, WordRange(word, tokens, tokens))) if tokens > 0 else self

    def written(self, new: str = "") -> str:
        """In the notation; the length stands with ``new``, which occurs for the first time."""
        return ".".join(f"{part.word}{_length(part, new)}" for part in self.parts)


def _length(part: WordRange, new: str) -> str:
    if part.word == new:
        return str(part.full)
    return "" if part.take == part.full else f"[{part.start or ''}:{part.start + part.take}]"


def names() -> Iterator[str]:
    """A, B, ... Z, AA, AB, ...: words of letters; an answer has the small letters of its prompt."""
    return map(letters, count())
