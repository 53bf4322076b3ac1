"""Steps from parsed requests, for scenario files and lines in notation; tokens of words.

A word has the same tokens everywhere. Two words never share a token, unless they are spelled in pieces of text.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import Any, Iterable, Mapping, Sequence

from cachesim.base import limits
from cachesim.base.errors import BadInput, quoted
from cachesim.base.media_items import image_items
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Request
from cachesim.engines.capabilities import Option
from cachesim.engines.chat_template import THK, ChatMessage, ChatTemplate, render, template_of
from cachesim.engines.shared.vocab import PIECES
from cachesim.scenarios.notation.tree import Action, LineRequest, Piece, Pieces
from cachesim.scenarios.notation.word_lengths import (
    NULL,
    THINK,
    ImageSize,
    canonical,
    predicted,
    prompt_size,
    span,
    user_starts,
)
from cachesim.scenarios.schema import Step

FIRST = 1_000                # smaller numbers are special tokens of the engines
STRIDE = 1_000_000           # tokens reserved per word; the maximum length of a word
CERTAIN = 256                # generated tokens of an answer that count before a run: only a tiny context ends it


class Words(dict[str, int]):
    """Lengths by word [tokens]. ``spelled``: tokens of the words that a file spells in pieces of the recorded models'
    vocabulary. Two spelled words may be the same text in different tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.spelled: dict[str, Tokens] = {}

    @property
    def written(self) -> dict[str, int | list[str]]:
        """The words as a file defines them: by their lengths, or by their pieces of text."""
        pieces = {word: [PIECES[token] for token in tokens] for word, tokens in self.spelled.items()}
        return {word: pieces.get(word, length) for word, length in self.items()}

    def spell(self, name: str, texts: Sequence[Any]) -> None:
        """Define a word by its pieces of text. Raise BadInput for a piece that is not in the vocabulary."""
        known = {text: token for token, text in enumerate(PIECES)}
        for text in texts:
            if not isinstance(text, str) or text not in known:
                raise BadInput(f"word {quoted(name)}: {quoted(text)} is not a piece of the recorded vocabulary")
        self.spelled[name] = tuple(known[text] for text in texts)
        self[name] = len(self.spelled[name])


def expand(pieces: Pieces, words: Mapping[str, int], made: dict[str, Tokens] | None = None) -> Tokens:
    """Return the tokens of pieces. The tokens of a word depend only on its index in ``words``, not on lengths. ``made``
    caches whole words, so that prompts share token objects (8 bytes per prompt position instead of 40)."""
    made = {} if made is None else made
    spelled = words.spelled if isinstance(words, Words) else {}
    out: list[int] = []
    for piece in pieces:
        start, stop = span(piece, words)
        if piece.word not in made:
            made[piece.word] = spelled.get(piece.word) or _tokens(piece.word, words)
        out.extend(made[piece.word][start:stop])
    return tuple(out)


def _tokens(word: str, words: Mapping[str, int]) -> Tokens:
    length, index = words[word], list(words).index(word)
    if isinstance(length, ImageSize):
        return image_items(f"{index}", length, max(length.columns, length.rows))
    first = {THINK: THK, NULL: -1}.get(word, FIRST + STRIDE * index)
    return tuple(range(first, first + length))


_NUMBERS = re.compile(r"@([\d.]+)")
"""Token numbers in an option."""
_NAME = re.compile(r"@(\w+)")
"""Name of a word in an option."""


def with_words(options: Mapping[str, Option], words: Mapping[str, int]) -> dict[str, Option]:
    """Return server options with the token numbers of a word, separated by dots, in place of ``@WORD``."""
    def tokens(found: re.Match[str]) -> str:
        word = found[1]
        return f"@{_dotted(word, words)}" if word in words else found[0]

    return {name: _NAME.sub(tokens, value) if isinstance(value, str) else value for name, value in options.items()}


def with_word_names(options: Mapping[str, Option], words: Mapping[str, int]) -> dict[str, Option]:
    """Return server options with ``@WORD`` in place of the token numbers of a word: these depend on the order of the
    words, which another line may change."""
    numbered = {option: value for option, value in options.items()
                if isinstance(value, str) and _NUMBERS.search(value)}  # fmt: skip
    names = {_dotted(word, words): word for word in words} if numbered else {}

    def name(found: re.Match[str]) -> str:
        return f"@{names.get(found[1], found[1])}"

    return {**options, **{option: _NUMBERS.sub(name, value) for option, value in numbered.items()}}


def words_named(options: Mapping[str, Option], words: Mapping[str, int]) -> list[str]:
    """Return the words that server options name."""
    return [word for value in options.values() if isinstance(value, str) for word in _NAME.findall(value)
            if word in words]  # fmt: skip


def _dotted(word: str, words: Mapping[str, int]) -> str:
    """Return the token numbers of a word, separated by dots."""
    return ".".join(map(str, expand((Piece(word),), words)))


def make_steps(
    asked: Sequence[LineRequest | Action], words: Mapping[str, int], server: Mapping[str, Option] | None = None,
    why: Iterable[str] = repeat(""),
) -> tuple[Step, ...]:
    """Return the steps of a scenario. ``why``: purpose of each step. Chats are rendered with the template that
    ``server`` names. Raise BadInput if the prompts or answers are too long in total, or the template rejects a chat.
    The number of new prompt tokens is checked when the scenario runs."""
    requests = [step for step in asked if isinstance(step, LineRequest)]
    limits.PROMPT_TOKENS.check(sum(prompt_size(step, words) for step in requests), "all prompts together")
    answers = sum(step.n_cmpl * max(0, predicted(step, words)) for step in requests)
    limits.NEW_TOKENS.check(answers, "all answers together")
    sampled = sum(step.n_cmpl * _sampled(step, words) for step in requests)
    limits.SAMPLED_TOKENS.check(sampled, "all answers without a text together")
    template = template_of(server or {})
    made: dict[str, Tokens] = {}
    return tuple(_step(step, words, template, made, reason) for step, reason in zip(asked, why, strict=False))


def _sampled(step: LineRequest, words: Mapping[str, int]) -> int:
    """Return the number of tokens that the sampler chooses for a request, at most ``CERTAIN``: the context of the
    server may end a longer answer."""
    if step.answer is not None or step.answers:
        return 0
    cancelled = CERTAIN if step.cancel_after is None else step.cancel_after
    return min(CERTAIN, cancelled, max(0, predicted(step, words)))


def _step(
    asked: LineRequest | Action, words: Mapping[str, int], template: ChatTemplate, made: dict[str, Tokens], why: str
) -> Step:
    if isinstance(asked, Action):
        return Step(Request(()), asked, why)
    messages = tuple(ChatMessage(role, expand(pieces, words, made)) for role, pieces in asked.chat)
    prompt = render(messages, template) if messages else expand(asked.prompt, words, made)
    request = Request(
        prompt=prompt, messages=messages, user_starts=user_starts(asked.prompt, words), kind=asked.task,
        n_predict=predicted(asked, words),
        forced=None if asked.answer is None else expand(asked.answer, words, made),
        children_forced=tuple(expand(pieces, words, made) for pieces in asked.answers),
        cache_prompt=asked.cache_prompt, id_slot=asked.id_slot, n_keep=asked.n_keep or None, n_discard=asked.n_discard,
        n_cache_reuse=asked.n_cache_reuse, n_cmpl=asked.n_cmpl, draft_else=asked.draft_else,
        cancel_at=_held_at(asked.cancel_after, len(prompt)), seed=asked.seed, extra=dict(asked.extra),
    )
    return Step(request, canonical(asked, words), why)


def _held_at(generated: int | None, prompt: int) -> int | None:
    """Return the number of tokens in the slot after ``generated`` tokens; the last generated token is not in the slot.
    For 0 (cancelled in the prompt) 1: the first chunk has been evaluated."""
    return None if generated is None else prompt + generated - 1 if generated else 1
