"""How is text made of the recorded tokens, and where in it does a message begin?"""

from __future__ import annotations

from functools import lru_cache

from cachesim.base.errors import BadInput, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.shared.vocab import PIECES, SPECIAL


@lru_cache(maxsize=256)
def tokenize(text: str) -> Tokens:
    """Tokens of a text made of message marks and single characters (as delimiters are). Raises BadInput."""
    out: list[int] = []
    marks = {text: token for token, text in SPECIAL.items()}
    at = 0
    while at < len(text):
        mark = next((m for m in marks if text.startswith(m, at)), None)
        if mark is None and not (text[at] == "\n" or 32 <= ord(text[at]) < 127):
            raise BadInput(f"character {quoted(text[at])} of a delimiter is not in the recorded vocabulary")
        out.append(marks[mark] if mark else PIECES.index(text[at]))
        at += len(mark) if mark else 1
    return tuple(out)


def starts_of(prompt: Tokens, delimiters: list[tuple[str, Tokens]], role: str = "user") -> tuple[int, ...]:
    """Indices in the prompt at which a message of the role begins: the first delimiter that matches there."""
    out, first = [], {mark[0] for _, mark in delimiters if mark}
    for i, token in enumerate(prompt):
        for name, mark in delimiters if token in first else ():
            if mark and token == mark[0] and prompt[i : i + len(mark)] == mark:
                if name == role:
                    out.append(i)
                break
    return tuple(out)


def token_at_byte(prompt: Tokens, byte: int) -> int:
    """Number of tokens before a byte offset of the prompt's text."""
    seen = 0
    for i, token in enumerate(prompt):
        if seen >= byte:
            return i
        seen += len(PIECES[token].encode())
    return len(prompt)
