"""Cures of known defects: changes that show that a conversation fails because of a certain defect.

A cure changes one thing: fields of the rule table (those of the version with the repair, if any), an option of
the server, or a method of a class.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Callable, NamedTuple
from unittest.mock import patch

from cachesim.engines.mlx_lm.caches import BatchRotatingKVCache
from cachesim.engines.mlx_lm.rules import segments
from cachesim.engines.registry import engine_of
from cachesim.engines.rule import Decision, Role, rule
from cachesim.tools.search.drawn_conversation import DrawnConversation


class Cure(NamedTuple):
    """A cure. ``table``: changes the rules. ``case``: changes the conversation. ``around``: context during the run.
    ``text``: description."""

    text: str
    table: Callable[[Any], Any] = lambda rules: rules
    case: Callable[[DrawnConversation], DrawnConversation] = lambda case: case
    around: Callable[[], AbstractContextManager[Any]] = nullcontext


def rules_of(profile: str, *fields: str) -> Cure:
    """Return the cure that takes these fields from another version's table."""
    newer = engine_of(profile).rules(profile)
    text = f"{', '.join(fields)} of {profile.partition('@')[2]}"
    return Cure(text, table=lambda rules: rules.mixed(newer, fields))


def option(name: str, value: Any) -> Cure:
    """Return the cure that sets a server option."""
    return Cure(f"{name} = {value}", case=lambda case: replace(case, server={**case.server, name: value}))


@rule("TEST-RESUME-BEHIND", Role.RESUME, "a test")
def resume_behind(ckpt: Any, ask: Any) -> Decision:
    """Resume after the checkpoint without evaluating its last token again."""
    from cachesim.engines.llama_cpp.rules.checkpoint_restore import ResumePlace

    n = min(ckpt.n_tokens, ask.n_past)
    return Decision(ResumePlace(n, n), {"n_tokens": ckpt.n_tokens})


@rule("TEST-REST-ONE", Role.PROMPT, "a test")
def rest_at_least_one(parts: Any, n_cached: int) -> Decision:
    """Decide like the released package, but leave at least one token to evaluate."""
    whole = sum(len(one.tokens) for one in parts)
    return segments.rest_or_value_error(parts, min(n_cached, whole - 1))


RESUME_BEHIND = Cure("resume behind the checkpoint", table=lambda rules: replace(rules, ckpt_restore=resume_behind))
ONE_LEFT = Cure("one token is always left", table=lambda rules: replace(rules, rest=rest_at_least_one))
WIDER = Cure("a context of twice the size", case=lambda case: replace(
    case, server={**case.server, "ctx_size": 2 * case.server["ctx_size"]}))  # fmt: skip


def straight_first() -> AbstractContextManager[Any]:
    """Rearrange the ring buffer before the mask of several tokens is made."""
    plain = BatchRotatingKVCache.make_mask

    def make_mask(self: Any, N: int, window_size: int | None = None, return_array: bool = False) -> Any:
        if N > 1 and self.rotated:
            self._straighten()
        return plain(self, N, window_size, return_array)

    return patch.object(BatchRotatingKVCache, "make_mask", make_mask)


STRAIGHT_FIRST = Cure("the ring is put straight before the mask is made", around=straight_first)
