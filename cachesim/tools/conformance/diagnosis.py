"""Diagnosis of a wrong answer: the prompt whose cold run gives this answer names the adapter's mistake."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance.compare_replies import Same, equal
from cachesim.tools.conformance.history_player import HistoryRun, Outcome
from cachesim.tools.conformance.properties import reply_to
from cachesim.tools.conformance.protocol import CacheRequest, Reply
from cachesim.tools.conformance.timeouts import TimeoutsExhausted


def diagnosis(played: HistoryRun, request: int, cold: Callable[[CacheRequest], Outcome], same: Same) -> str:
    """Return a sentence about the wrong answer, "" if unknown. Requests cold runs of other prompts."""
    warm = reply_to(played.warm, request)
    if warm is None or not warm.cached:
        return ""
    ask = played.asks[request]
    for prompt, sentence in _diagnostic_prompts(ask, warm.cached):
        try:
            other = cold(replace(ask, prompt=prompt, cache=True, cancel_after=None)) if prompt else None
        except TimeoutsExhausted:
            return ""
        if isinstance(other, Reply) and not other.refused and equal(warm, other, same):
            return sentence
    return ""


def _diagnostic_prompts(ask: CacheRequest, cached: int) -> list[tuple[tuple[int, ...], str]]:
    prompt = ask.prompt
    last = len(prompt) - cached
    return [
        (prompt[cached:], f"equals a cold run's answer to only the last {last} token{'s' * (last > 1)}: "
                          "the model read nothing from the cache (does the adapter pass it?)"),
        (prompt[:-1], "equals a cold run's answer to the prompt without its last token"),
        ((*prompt, prompt[-1]), "equals a cold run's answer to the prompt with its last token twice"),
        ((*prompt[:cached], prompt[cached - 1], *prompt[cached:]),
         f"equals a cold run's answer to the prompt with token {cached - 1}, the last cached token, twice"),
    ]  # fmt: skip


def first_wrong_token(played: HistoryRun, request: int) -> str:
    """Return the first generated token that differs from the cold run, with its position; "" if none is known."""
    warm, cold = reply_to(played.warm, request), reply_to(played.cold, request)
    if warm is None or cold is None or warm.tokens is None or cold.tokens is None or warm.tokens == cold.tokens:
        return ""
    same = common_prefix(warm.tokens, cold.tokens)
    return f"first wrong token: generated token {same}, at position {len(played.asks[request].prompt) + same}"
