"""Why was each token of a prompt evaluated? One reason for every range of evaluated tokens.

diverged        never evaluated before: the prompt is new from here on
one token       all of it was reusable, but one token must be evaluated for logits
never captured  evaluated before, but no restore point was ever made there
erased, evicted, consumed (removed from the prompt cache on load), cleared, overwritten, truncated
                a restore point existed; this is what removed it
advanced        the slot's memory could have served here for a moment, and evaluation went on
not chosen      a restore point was there, and a rule did not use it
moved           tokens that a chunk move brought along
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.base import Answer, prompt_of
from cachesim.engines.rule import Role, role_of
from cachesim.judging.judgement import Judgement

SLOT, CHECKPOINT = "slot", "checkpoint"
"""Sources of reused tokens for which reports have columns of their own. All others count as loaded."""

WORDS = {
    "never captured": "no {kept} was taken there",
    "not chosen": "{kind} not used",
    "consumed": "{kind} removed from the prompt cache on load",
    "evicted": "{kind} evicted",
    "erased": "{kind} erased",
    "cleared": "slot cleared",
    "truncated": "slot truncated",
    "overwritten": "slot overwritten",
    "advanced": "state advanced past it, no {kept} taken",
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


def reasons(one: Judgement, others: Sequence[tuple[str, int]] = (), kept: str = CHECKPOINT) -> list[Reason]:
    """The evaluated tokens of a request in order, each range with its reason. ``others`` are (profile, cache_n) of the
    same request under other rule sets; ``kept`` is the engine's noun for what it takes of a running request."""
    ledger, n_tokens = one.ledger, len(prompt_of(one.request, one.answer))
    out, start = [], ledger.n_past
    for charge in reversed(ledger.charges):        # from the beginning of the prompt
        stop = start + charge.tokens
        why = what_happened(charge.event, charge.kind, kept)
        survives = tuple(name for name, cache_n in others if cache_n >= stop)
        out.append(Reason(start, stop, why, charge.rule, charge.at, survives))
        start = stop
    if start < n_tokens:
        last = start == n_tokens - 1 and ledger.best == n_tokens - 1
        why = "at least one token must be evaluated for logits" if last else NEW
        out.append(Reason(start, n_tokens, why, "", -1))
    return out


def what_happened(event: str, kind: str, kept: str = CHECKPOINT) -> str:
    """The event of an attribution in words; ``kind`` the restore point that was lost."""
    return WORDS.get(event, event).format(kind=kind or "restore point", kept=kept)


# How did a request come to its reused tokens? In a few words, and as counts: kept, restored, loaded.

class Reused(NamedTuple):
    """Tokens of a prompt that were not evaluated: kept in the slot, restored from a checkpoint (also one that came
    with an entry), loaded with an entry of the prompt cache or from another kept object."""

    kept: int
    restored: int
    loaded: int


def reused(answer: Answer) -> Reused:
    """Where the reused tokens of a request are from."""
    kept, restored = (answer.reused.get(source, 0) for source in (SLOT, CHECKPOINT))
    return Reused(kept, restored, answer.cache_n - kept - restored)


def reason(one: Judgement) -> str:
    """A cold start, a hit or an extension; or how the request ended instead."""
    answer = one.answer
    if answer.died:
        return "server died"
    if answer.status != 200:
        return f"{'REFUSED' if one.judged.refused else 'ERROR'} ({answer.status})"
    words = _nothing(one) if not answer.cache_n else _hit(one)
    return f"{words}, disconnected" if answer.cancelled else words


def _nothing(one: Judgement) -> str:
    """Why was nothing reused?"""
    if role_of(one.answer.deciding) is Role.RESET:
        return "forced full re-processing"
    if not one.request.cache_prompt:
        return "cache_prompt is false"
    if one.slot is None:
        return ""
    if not one.slot.held:
        return "empty slot"
    if not one.slot.lcp:
        return "no common prefix"
    if role_of(one.answer.deciding) is Role.FAIL:
        return f"LCP {one.slot.lcp}, seq_rm failed"
    return f"LCP {one.slot.lcp}, nothing reused"


def _hit(one: Judgement) -> str:
    kept, restored, loaded = reused(one.answer)
    n, lcp = one.answer.cache_n, one.slot.lcp if one.slot else 0
    if restored:
        return f"LCP {max(lcp, n)}, restored {restored}"
    if loaded:
        sources = [source for source, n in one.answer.reused.items() if n and source not in (SLOT, CHECKPOINT)]
        places = " and ".join("an entry" if source == "entry" else f"{source}s" for source in sources)
        return f"loaded {loaded} from {places}"
    if n == len(prompt_of(one.request, one.answer)) - 1 and lcp > n:
        return "same prompt, all but 1"
    if one.slot is not None and n == one.slot.held:
        return "extends the slot"
    if n > lcp:
        return f"LCP {lcp}, {n - lcp} moved"
    return f"LCP {lcp}" if n == lcp else f"LCP {lcp}, kept {kept}"
