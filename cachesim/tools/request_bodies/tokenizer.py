"""Token counts of texts: by the tokenizer file of a model, or estimated from their bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Mapping, Sequence

from cachesim.base.errors import counted
from cachesim.base.gguf_header import HEADER, is_gguf
from cachesim.base.limits import TRACE_BYTES
from cachesim.base.untrusted_files import read_bytes, read_start
from cachesim.tools.request_bodies.body import encoded

if TYPE_CHECKING:
    from cachesim.base.bounded_child import BoundedChild

PARSER = "cachesim.tools.request_bodies.tokenizer_parser"

BYTES = 4                    # estimated bytes per token


class Tokenizer(ABC):
    """Base class of tokenizers. ``exact``: whether its counts are those of the model. ``name``: its source."""

    exact = True
    name = ""

    @abstractmethod
    def tokens(self, text: str) -> Sequence[int]:
        """Return the tokens of a text, or as many placeholders."""

    def shared(self, a: str, b: str, common: int) -> int | None:
        """Return the number of common tokens of two texts with ``common`` equal characters; None if the tokens must be
        compared."""
        return None

    def close(self) -> None:        # noqa: B027 - most tokenizers have none
        """Release the resources of the tokenizer."""


class EstimatingTokenizer(Tokenizer):
    """Estimate by the bytes of a text: ``BYTES`` bytes per token, or as many as in the prompts whose tokens are known.
    Tokens chosen by the client are counted exactly: the character of each has as many bytes.

    ``known``: tokens of whole prompts, from the replies to them."""

    exact = False

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        self.known = {text: tokens for text, tokens in (known or {}).items() if text and tokens}
        self._of_tokens = sum(self.known.values()) or 1
        self._bytes = sum(len(encoded(text)) for text in self.known) or BYTES
        if self.known:
            each = f"{self._bytes / self._of_tokens:.2f}"
            self.name = f"about {each} bytes per token, from {counted(len(self.known), 'prompt length')} in the replies"
        else:
            self.name = f"about {BYTES} bytes per token"

    def tokens(self, text: str) -> Sequence[int]:
        known = self.known.get(text)
        return range(self._count(text, up=True) if known is None else known)

    def shared(self, a: str, b: str, common: int) -> int | None:
        known = [self.known[text] for text in (a, b) if text in self.known]
        return min([self._count(a[:common], up=False), *known])

    def _count(self, text: str, up: bool) -> int:
        """Return the estimated number of tokens, rounded up or down."""
        size = len(encoded(text)) * self._of_tokens
        return -(-size // self._bytes) if up else size // self._bytes


class ExactTokenizer(Tokenizer):
    """Tokenizer of the model, in a child process."""

    def __init__(self, name: str, child: BoundedChild) -> None:
        self.name, self.child = name, child

    def tokens(self, text: str) -> Sequence[int]:
        found: list[int] = self.child.ask({"text": text})
        return found

    def close(self) -> None:
        self.child.close()


class TokenPrompts(Tokenizer):
    """Tokenizer for prompts that are token lists already."""

    name = "tokens of the requests"

    def tokens(self, text: str) -> Sequence[int]:
        return range(len(text))                  # a character is a token, and ``shared`` compares the texts

    def shared(self, a: str, b: str, common: int) -> int | None:
        return common


def read_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer in a ``tokenizer.json`` or a GGUF file. Raise BadInput for other files, and for a
    vocabulary that cannot be reproduced exactly."""
    from cachesim.base.bounded_child import BoundedChild

    binary = is_gguf(path)
    data = read_start(path, HEADER) if binary else read_bytes(path, TRACE_BYTES, "tokenizer")
    return ExactTokenizer(path.name, BoundedChild(PARSER, "the tokenizer", str(path), {"gguf": binary}, data))
