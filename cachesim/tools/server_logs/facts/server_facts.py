"""Facts about a server: values that lines about no request in particular print. The first value of a fact counts."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines.shared.log_grammar import Number
from cachesim.tools.server_logs.lines.read_lines import ReadLine

Facts = dict[str, Number | str]
_WHOLE = frozenset({"server", "memory", "version", "start_ckpt", "start_cache", "pc_state"})
"""Kinds of lines whose numbers are all facts."""
_CONSTANT: Mapping[str, Mapping[str, Number]] = {
    "no_limit": {"limit_mib": -1}, "no_cache": {"limit_mib": 0}, "no_ckpt": {"max": 0},
}
"""Facts of kinds of lines without numbers."""
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "new_prompt": ("n_ctx_slot",), "prompt_size": ("n_ctx_slot",), "n_past": ("n_swa",), "prefix": ("n_swa",),
    "ckpt_invalidate": ("n_swa",), "ckpt_create": ("max",),
}  # fmt: skip
"""Counts in lines of requests that are facts about the server."""
_THRESHOLDS = frozenset({"slot_by_lcp", "slot_by_lru", "slot_by_id", "slot_sim"})
_KINDS = _WHOLE | _THRESHOLDS | frozenset(_CONSTANT) | frozenset(_COUNTS)


def add_facts(facts: Facts, line: ReadLine) -> None:
    """Add the facts that a line prints to those known before."""
    if line.kind not in _KINDS:
        return
    if line.kind in _WHOLE:
        for name, value in line.read.numbers.items():
            facts.setdefault(name, value)
    for name, value in _CONSTANT.get(line.kind, {}).items():
        facts.setdefault(name, value)
    for name in _COUNTS.get(line.kind, ()):
        count = line.number_of(name)
        if count is not None:
            facts.setdefault(name, count)
    share = line.read.numbers.get("thold") if line.kind in _THRESHOLDS else None
    if isinstance(share, int | float) and 0 <= share <= 1:
        facts.setdefault("similarity", float(share))
