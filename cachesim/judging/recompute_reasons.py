"""Reasons why ranges of a prompt were evaluated, and the sources of the reused tokens.

diverged        never evaluated before: the prompt is new from here on
one token       all of it was reusable, but a token must be evaluated for logits
never captured  evaluated before, but no restore point was made there
too few         evaluated before, but the tokens end within a block or page of the server
erased, evicted, consumed (removed from the prompt cache on load), cleared, overwritten, truncated
                a restore point existed and was removed in this way
advanced        the state existed briefly during evaluation and was not checkpointed
not chosen      a restore point existed, and a rule did not use it
not read        a restore point was chosen, and reading it failed
moved           tokens that a chunk move added
cache off       the server was started without a prefix cache
unread          the request asks not to read stored prefixes
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.base import CACHE_OFF, UNREAD, Answer, prompt_of
from cachesim.engines.point_kinds import CHECKPOINT, CONVERSATION, RUNNING
from cachesim.engines.rule import Role, role_of
from cachesim.judging.judgement import Judgement
from cachesim.judging.recompute_ledger import TOO_FEW
from cachesim.judging.verdict_words import SERVER_DIED, error_name

WORDS = {
    "never captured": "no {kept} was taken there",
    TOO_FEW: "the tokens do not fill a {kind}",
    "not chosen": "{kind} not used",
    "not read": "{kind} chosen but unreadable",
    "consumed": "{kind} removed from the prompt cache on load",
    "evicted": "{kind} evicted",
    "erased": "{kind} erased",
    "cleared": "{place} cleared",
    "truncated": "slot truncated",
    "overwritten": "slot overwritten",
    "advanced": "state advanced past it, no {kept} taken",
    CACHE_OFF: "the server's prefix cache is off",
    UNREAD: "the request reads no stored prefix",
}
NEW = "new tokens"


class RecomputeReason(NamedTuple):
    """Tokens start .. stop-1 were evaluated because of ``why``; ``rule`` decided it at request ``at`` (-1 = the present
    request). ``survives``: other profiles under which these tokens were reused."""

    start: int
    stop: int
    why: str
    rule: str
    at: int
    survives: tuple[str, ...] = ()


def reasons(
    judgement: Judgement, others: Sequence[tuple[str, int]] = (), kept: str = CHECKPOINT
) -> list[RecomputeReason]:
    """Return the ranges of evaluated tokens of a request in order, each with its reason. ``others``: (profile, cache_n)
    of the same request under other rule sets; ``kept``: the engine's noun for a restore point of a running request."""
    ledger, answer = judgement.ledger, judgement.answer
    n_tokens = len(prompt_of(judgement.request, answer))
    if answer.cancelled or answer.status != 200:           # perhaps not all of it was evaluated
        n_tokens = min(n_tokens, answer.cache_n + answer.prompt_n)
    out, start = [], ledger.n_past
    for charge in reversed(ledger.charges):        # from the beginning of the prompt
        stop = start + charge.tokens
        why = what_happened(charge.event, charge.kind, kept)
        survives = tuple(name for name, cache_n in others if cache_n >= stop)
        out.append(RecomputeReason(start, stop, why, charge.rule, charge.at, survives))
        start = stop
    if start < n_tokens:
        last = start == n_tokens - 1 and ledger.best == n_tokens - 1
        why = "at least one token must be evaluated for logits" if last else NEW
        out.append(RecomputeReason(start, n_tokens, why, "", -1))
    return out


def what_happened(event: str, kind: str, kept: str = CHECKPOINT) -> str:
    """Return the event of a charge in words; ``kind`` is the restore point that was lost."""
    place = "slot" if kind in ("", RUNNING, CHECKPOINT, CONVERSATION) else "cache"
    return WORDS.get(event, event).format(kind=kind or "restore point", kept=kept, place=place)


class ReusedTokens(NamedTuple):
    """Tokens of a prompt that were not evaluated: kept in the slot, restored from a checkpoint (also a checkpoint
    stored with an entry), or loaded with a prompt cache entry or another stored object."""

    kept: int
    restored: int
    loaded: int


def reused(answer: Answer) -> ReusedTokens:
    """Return the sources of the reused tokens of a request."""
    kept, restored = (answer.reused.get(source, 0) for source in (RUNNING, CHECKPOINT))
    return ReusedTokens(kept, restored, answer.cache_n - kept - restored)


def reason(judgement: Judgement, slots: bool, alone: bool) -> str:
    """Return the way a request came to its reused tokens, or its end without an answer, in a few words. ``slots``: the
    engine has slots, which keep the tokens of an earlier request; ``alone``: no request was sent together with it."""
    answer = judgement.answer
    if answer.died:
        return SERVER_DIED.phrase
    if answer.status != 200:
        return error_name(judgement.judged.is_refused, answer.status)
    words = _nothing(judgement, slots, alone) if not answer.cache_n else _hit(judgement)
    if answer.cancelled:
        return f"{words}, disconnected"
    if _is_cut(judgement):
        return f"{words}, answer cut: {answer.predicted_n} of {judgement.request.n_predict}"
    return words


def _is_cut(judgement: Judgement) -> bool:
    """True if a limit of the request or of the server ended its answer before all its tokens were generated."""
    request, answer = judgement.request, judgement.answer
    is_limited = answer.done and answer.stop_type == "limit" and 0 < answer.predicted_n < request.n_predict
    return is_limited and answer.tokens[-1] not in request.eog and not answer.children


def _nothing(judgement: Judgement, slots: bool, alone: bool) -> str:
    """Return the reason why nothing was reused, "nothing reused" if only this is known. A server without slots has no
    prefix of a prompt of which nothing was ever evaluated. Requests sent together may have evaluated some, and the
    ledger does not count the last token, which is all of a prompt of one token."""
    if role_of(judgement.answer.deciding) is Role.RESET:
        return "forced full re-processing"
    if not judgement.request.cache_prompt:
        return "cache_prompt is false"
    if judgement.answer.unread == CACHE_OFF:
        return "prefix cache off"
    if judgement.slot is None:
        return ""
    if not slots:
        is_new = alone and not judgement.ledger.best and len(judgement.request.prompt) > 1
        return "no cached prefix" if is_new else "nothing reused"
    if not judgement.slot.held:
        return "empty slot"
    if not judgement.slot.lcp:
        return "no common prefix"
    if role_of(judgement.answer.deciding) is Role.FAIL:
        return f"LCP {judgement.slot.lcp}, seq_rm failed"
    return f"LCP {judgement.slot.lcp}, nothing reused"


def _hit(judgement: Judgement) -> str:
    kept, restored, loaded = reused(judgement.answer)
    n, lcp = judgement.answer.cache_n, judgement.slot.lcp if judgement.slot else 0
    if restored:
        return f"LCP {max(lcp, n)}, restored {restored}"
    if loaded:
        sources = [source for source, n in judgement.answer.reused.items() if n and source not in (RUNNING, CHECKPOINT)]
        places = " and ".join("an entry" if source == CONVERSATION else f"{source}s" for source in sources)
        return f"loaded {loaded} from {places}"
    if n == len(prompt_of(judgement.request, judgement.answer)) - 1 and lcp > n:
        return "whole prompt held, all but 1"
    if judgement.slot is not None and n == judgement.slot.held:
        return "extends the slot"
    if n > lcp and judgement.answer.prompt is not None:
        return f"LCP {lcp}, {n} kept after a context shift"
    if n > lcp:
        return f"LCP {lcp}, {n - lcp} moved"
    return f"LCP {lcp}" if n == lcp else f"LCP {lcp}, kept {kept}"
