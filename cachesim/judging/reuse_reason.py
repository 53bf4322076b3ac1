"""How did a request come to its reused tokens? In a few words, and as counts: kept, restored, loaded."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.base import prompt_of
from cachesim.engines.rule import Role, role_of
from cachesim.judging.request_judgement import Judgement

FROM_A_CHECKPOINT = (Role.PICK, Role.RESUME)


class Reused(NamedTuple):
    """Tokens of a prompt that were not evaluated: kept in the slot, restored from a checkpoint (also one that came
    with an entry), loaded with an entry of the prompt cache."""

    kept: int
    restored: int
    loaded: int


def reused(one: Judgement) -> Reused:
    """Where the reused tokens of a request are from."""
    n = one.answer.cache_n
    if not one.answer.restored:
        return Reused(n, 0, 0)
    return Reused(0, n, 0) if role_of(one.answer.deciding) in FROM_A_CHECKPOINT else Reused(0, 0, n)


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
    kept, restored, loaded = reused(one)
    n, lcp = one.answer.cache_n, one.slot.lcp if one.slot else 0
    if restored:
        return f"LCP {max(lcp, n)}, restored {restored}"
    if loaded:
        return f"loaded {loaded} from an entry"
    if n == len(prompt_of(one.request, one.answer)) - 1 and lcp > n:
        return "same prompt, all but 1"
    if one.slot is not None and n == one.slot.held:
        return "extends the slot"
    if n > lcp:
        return f"LCP {lcp}, {n - lcp} moved"
    return f"LCP {lcp}" if n == lcp else f"LCP {lcp}, kept {kept}"
