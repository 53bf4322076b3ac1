"""The 320-token vocabulary of the recorded tiny models: how long is a token as text, and what is a text in tokens?

0..94 printable ASCII from the space on, 95 newline, 96 end of text, 97 and 98 message start and end, 99 and 100 think
tags, 101..200 a consonant and a vowel, 201..319 the same with a third letter.
Source: tokenizer.ggml.tokens of the recorded models; recorded traces' README, "Model kinds".
"""

from __future__ import annotations

from cachesim.errors import BadInput
from cachesim.tokens import Tokens

SPECIAL = {
    96: "<|endoftext|>",
    97: "<|im_start|>",
    98: "<|im_end|>",
    99: "<think>",
    100: "</think>",
}
_PAIRS = [c + v for c in "BCDFGHJKLMNPQRSTVWXZ" for v in "aeiou"]
PIECES: tuple[str, ...] = (
    *(chr(32 + i) for i in range(95)), "\n", *SPECIAL.values(), *_PAIRS, *(p + "n" for p in _PAIRS),
    *(p + "s" for p in _PAIRS[:19]),
)


def tokenize(text: str) -> Tokens:
    """Tokens of a text made of message marks and single characters (as delimiters are). Raises BadInput."""
    out: list[int] = []
    marks = {text: token for token, text in SPECIAL.items()}
    at = 0
    while at < len(text):
        mark = next((m for m in marks if text.startswith(m, at)), None)
        if mark is None and not (text[at] == "\n" or 32 <= ord(text[at]) < 127):
            raise BadInput(f"character {text[at]!r} of a delimiter is not in the recorded vocabulary")
        out.append(marks[mark] if mark else PIECES.index(text[at]))
        at += len(mark) if mark else 1
    return tuple(out)


def starts_of(prompt: Tokens, delimiters: list[tuple[str, Tokens]], role: str = "user") -> tuple[int, ...]:
    """Indices in the prompt at which a message of the role begins: the first delimiter that matches there."""
    out = []
    for i in range(len(prompt)):
        for name, mark in delimiters:
            if mark and prompt[i] == mark[0] and prompt[i : i + len(mark)] == mark:
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
