"""Comparison of recorded replies with simulated ones, field by field.

The recorded tokens are also inputs: the simulated server is forced to generate ``tokens_in_slot``, or ``tokens``
without it, with the recorded drafts. A client that stays receives all generated tokens.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.base import Answer
from cachesim.replay.recorded_trace import Trace

FIELDS = ("cache_n", "prompt_n", "tokens_cached", "id_slot", "truncated", "draft_n_accepted")
SLOT_FIELDS = ("n_saved", "n_written", "n_restored", "n_read", "n_erased", "status")
FURTHER = ("predicted_n", "stop_type")
"""Fields that the recorded tokens determine almost alone: compared, but not enough to decide a step."""

COMPARED = frozenset({"status", "tokens", "tokens_evaluated", "completions", "cancelled", *FIELDS, *SLOT_FIELDS,
                      *FURTHER})  # fmt: skip
LABELS = frozenset({"index", "filename"})
"""Fields of a response that name a part of it."""


def compare_answer(response: Mapping[str, Any], answer: Answer, prompt: int | None = None) -> dict[str, Any] | None:
    """Return the first field in which an answer or a further completion of it differs, None if all agree. ``prompt``:
    length of the answered prompt, None = unknown."""
    names = ("status",) if "error" in response else ("status", *FIELDS, *FURTHER)
    ours = {name: getattr(answer, name) for name in names} | {"status": answer.reply_status}
    wrong = first_field(response, ours, names)
    if "error" in response:
        return wrong
    if prompt is not None:
        wrong = wrong or first_field(response, {"tokens_evaluated": prompt}, ("tokens_evaluated",))
    wrong = wrong or _first_token(response, answer)
    for theirs, child in zip(response.get("completions") or (), answer.children, strict=False):
        wrong = wrong or compare_answer(theirs, child)
    return wrong


def _first_token(response: Mapping[str, Any], answer: Answer) -> dict[str, Any] | None:
    """Return the first received token that differs from the generated tokens, None if all agree. A client that
    disconnected received some of them."""
    theirs = response.get("tokens")
    if theirs is None or response.get("cancelled") or theirs == answer.tokens:
        return None
    at = common_prefix(theirs, answer.tokens)
    recorded, ours = (list(tokens[at : at + 1]) for tokens in (theirs, answer.tokens))
    return {"field": f"tokens[{at}:]", "recorded": recorded, "ours": ours}


def compare_action(response: Mapping[str, Any], done: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the first field in which the result of a slot action differs. Status 0 = the server performed it and its
    reply was lost."""
    return None if response.get("status") == 0 else first_field(response, done, SLOT_FIELDS)


def first_field(theirs: Mapping[str, Any], ours: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any] | None:
    """Return the first of the fields ``names`` that is recorded and differs, None if all agree."""
    for name in names:
        if name in theirs and theirs[name] != ours.get(name):
            return {"field": name, "recorded": theirs[name], "ours": ours.get(name)}
    return None


def fields_not_compared(trace: Trace) -> list[str]:
    """Return the names of the fields in the recorded replies that a replay does not compare, sorted."""
    found: set[str] = set()
    for step in trace.steps:
        for response in (step.response, *(member.response for member in step.members)):
            found.update(response)
            found.update(name for child in response.get("completions") or () for name in child)
    return sorted(found - COMPARED - LABELS)
