"""How does one parsed request become a Step? Shared by the file form and the one-line form."""

from __future__ import annotations

from itertools import repeat
from typing import Iterable, Mapping, Sequence

from cachesim.base import limits
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Request
from cachesim.engines.chat import ChatMessage, ChatTemplate, render, template_of
from cachesim.engines.manual import Option
from cachesim.scenarios.notation.tree import Action, Asked
from cachesim.scenarios.notation.words import canonical, predicted, prompt_size, user_starts
from cachesim.scenarios.schema import Step
from cachesim.scenarios.word_tokens import expand


def make_steps(
    asked: Sequence[Asked | Action],
    words: Mapping[str, int],
    server: Mapping[str, Option] | None = None,
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
        prompt=prompt,
        n_predict=predicted(asked, words),
        kind=asked.task,
        forced=None if asked.answer is None else expand(asked.answer, words, made),
        cache_prompt=asked.cache_prompt,
        id_slot=asked.id_slot,
        user_starts=user_starts(asked.prompt, words),
        n_keep=asked.n_keep or None,
        n_discard=asked.n_discard,
        n_cache_reuse=asked.n_cache_reuse,
        n_cmpl=asked.n_cmpl,
        children_forced=tuple(expand(pieces, words, made) for pieces in asked.answers),
        cancel_at=_held_at(asked.cancel_after, len(prompt)),
        draft_else=asked.draft_else,
        messages=messages,
        seed=asked.seed,
        extra=dict(asked.extra),
    )
    return Step(request, canonical(asked, words), why)


def _held_at(generated: int | None, prompt: int) -> int | None:
    """Tokens in the slot once so many were generated: the last one is not in it. 0 = whatever the first chunk holds."""
    return None if generated is None else prompt + generated - 1 if generated else 1
