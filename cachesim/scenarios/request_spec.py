"""How does one parsed request become a Step? Shared by the file form and the one-line form."""

from __future__ import annotations

from itertools import repeat
from typing import Any, Iterable, Mapping, Sequence

from cachesim.base import limits
from cachesim.base.errors import BadInput, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Request
from cachesim.engines.capabilities import Option
from cachesim.engines.chat_template import THK, ChatMessage, ChatTemplate, render, template_of
from cachesim.engines.shared.vocab import PIECES
from cachesim.scenarios.notation.tree import Action, Asked, Pieces
from cachesim.scenarios.notation.word_lengths import THINK, canonical, predicted, prompt_size, span, user_starts
from cachesim.scenarios.schema import Step

# How do words become tokens? The token numbers of each word, and words that are spelled out in pieces of text.
#
# The same word is the same tokens everywhere; two words never share a token, unless they are spelled out.

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


def make_steps(
    asked: Sequence[Asked | Action], words: Mapping[str, int], server: Mapping[str, Option] | None = None,
    why: Iterable[str] = repeat(""),
) -> tuple[Step, ...]:
    """The steps of a scenario, ``why`` each of them is there; chats go through the template that ``server`` names.
    Raises BadInput if the prompts, or the tokens to be generated, are too many together, or if the template refuses a
    chat. How many tokens of the prompts are new is seen when the scenario runs."""
    requests = [one for one in asked if isinstance(one, Asked)]
    limits.PROMPT_TOKENS.check(sum(prompt_size(one, words) for one in requests), "all prompts together")
    limits.NEW_TOKENS.check(sum(one.n_cmpl * max(0, predicted(one, words)) for one in requests), "all answers together")
    template = template_of(server or {})
    made: dict[str, Tokens] = {}
    return tuple(_step(one, words, template, made, reason) for one, reason in zip(asked, why, strict=False))


def _step(
    asked: Asked | Action, words: Mapping[str, int], template: ChatTemplate, made: dict[str, Tokens], why: str
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
    """Tokens in the slot once so many were generated: the last one is not in it. 0 = whatever the first chunk holds."""
    return None if generated is None else prompt + generated - 1 if generated else 1
