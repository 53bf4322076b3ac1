"""What is a wrong answer the right answer to? Where that can be found out, it names the adapter's mistake."""

from __future__ import annotations

from typing import Callable

from cachesim.tools.conformance.equality import equal
from cachesim.tools.conformance.fingerprint import Same
from cachesim.tools.conformance.history_player import Outcome, PlayedHistory
from cachesim.tools.conformance.protocol import Ask, Reply
from cachesim.tools.conformance.timeouts import GaveUp


def diagnosis(played: PlayedHistory, request: int, cold: Callable[[Ask], Outcome], same: Same) -> str:
    """A sentence on the answer to this request, "" if nothing is known. Asks for cold runs of other prompts."""
    warm = played.warm[request] if request < len(played.warm) else None
    if not isinstance(warm, Reply) or not warm.cached:
        return ""
    ask = played.asks[request]
    for prompt, sentence in _others(ask, warm.cached):
        try:
            other = cold(Ask(prompt, ask.n_predict, sampling=ask.sampling)) if prompt else None
        except GaveUp:
            return ""
        if isinstance(other, Reply) and not other.refused and equal(warm, other, same):
            return sentence
    return ""


def _others(ask: Ask, cached: int) -> list[tuple[tuple[int, ...], str]]:
    prompt = ask.prompt
    last = len(prompt) - cached
    return [
        (prompt[cached:], f"this is a cold run's answer to the last {last} token{'s' * (last > 1)} alone: "
                          "the model read nothing of the cache (does the adapter pass it?)"),
        (prompt[:-1], "this is a cold run's answer to the prompt without its last token"),
        ((*prompt, prompt[-1]), "this is a cold run's answer to the prompt with its last token twice"),
        ((*prompt[:cached], prompt[cached - 1], *prompt[cached:]),
         f"this is a cold run's answer to the prompt with token {cached - 1}, the last cached one, twice"),
    ]  # fmt: skip
