"""Why was each token of a prompt evaluated? One reason for every range of evaluated tokens.

diverged        never evaluated before: the prompt is new from here on
one token       all of it was reusable, but one token must be evaluated for logits
never captured  evaluated before, but no checkpoint was ever taken there
erased, evicted, consumed (removed from the prompt cache on load), cleared, overwritten, truncated
                a restore point existed; this is what removed it
advanced        the slot's memory could have served here for a moment, and evaluation went on
not chosen      a restore point was there, and a rule did not use it
moved           tokens that a chunk move brought along
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.base import prompt_of
from cachesim.judging.request_judgement import Judgement

WORDS = {
    "never captured": "no checkpoint was taken there",
    "not chosen": "{kind} not used",
    "consumed": "{kind} removed from the prompt cache on load",
    "evicted": "{kind} evicted",
    "erased": "{kind} erased",
    "cleared": "slot cleared",
    "truncated": "slot truncated",
    "overwritten": "slot overwritten",
    "advanced": "state advanced past it, no checkpoint taken",
}
NEW = "new tokens"


class Reason(NamedTuple):
    """Tokens start .. stop-1 were evaluated because of ``why``; ``rule`` decided it at request ``at`` (-1 = the
    present one). ``survives`` are other profiles under which these tokens were reused."""

    start: int
    stop: int
    why: str
    rule: str
    at: int
    survives: tuple[str, ...] = ()


def reasons(one: Judgement, others: Sequence[tuple[str, int]] = ()) -> list[Reason]:
    """The evaluated tokens of a request in order, each range with its reason. ``others`` are (profile, cache_n) of the
    same request under other rule sets."""
    account, n_tokens = one.account, len(prompt_of(one.request, one.answer))
    out, start = [], account.n_past
    for charge in reversed(account.charges):        # from the beginning of the prompt
        stop = start + charge.tokens
        why = what_happened(charge.event, charge.kind)
        out.append(Reason(start, stop, why, charge.rule, charge.at, _survivors(others, stop)))
        start = stop
    if start < n_tokens:
        last = start == n_tokens - 1 and account.best == n_tokens - 1
        why = "at least one token must be evaluated for logits" if last else NEW
        out.append(Reason(start, n_tokens, why, "", -1))
    return out


def what_happened(event: str, kind: str) -> str:
    """The event of an attribution in words; ``kind`` the restore point that was lost."""
    return WORDS.get(event, event).format(kind=kind or "restore point")


def _survivors(others: Sequence[tuple[str, int]], stop: int) -> tuple[str, ...]:
    return tuple(name for name, cache_n in others if cache_n >= stop)
