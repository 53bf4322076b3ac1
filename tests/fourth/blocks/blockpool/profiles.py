"""Versions, newest first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Mapping

from blockpool import rules as r
from cachesim.engines.contract import RuleSet
from cachesim.engines.rule import Decision

Rule = Callable[..., Decision]


@dataclass(frozen=True)
class Rules(RuleSet):
    """A version. Fields in the order in which a request meets them."""

    name: str
    build: str
    source: str
    hash: Callable[..., bytes]
    queue: Rule
    find: Rule
    guard: Rule
    split_rows: Rule
    split_states: Rule
    short: Rule
    evict: Rule
    side: Callable[[bool], str]
    publish: Rule
    retain: Rule
    release: Rule
    inferred: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)


V0_33_0 = Rules(
    name="blockpool@0.33.0",
    build="2026-11-01",
    source="vLLM 0.33.0 (PyPI)",
    hash=r.hash_chain,
    queue=r.queue_first,
    find=r.find_shrinking,
    guard=r.guard_step,
    split_rows=r.split_whole,
    split_states=r.split_aligned,
    short=r.preempt_last,
    evict=r.evict_front,
    side=r.free_sides,
    publish=r.publish_scheduled,
    retain=r.retain_boundaries,
    release=r.release_superseded,
)

V0_20_2 = replace(
    V0_33_0,
    name="blockpool@0.20.2",
    build="2026-05",
    source="vLLM 0.20.2 (PyPI)",
    retain=r.retain_dense,
    inferred=("split_states", "release"),
)

V0_15_1 = replace(
    V0_20_2,
    name="blockpool@0.15.1",
    build="2026-02",
    source="vLLM 0.15.1 (PyPI)",
    guard=r.guard_none,
)

PROFILES: Mapping[str, Rules] = {one.name: one for one in (V0_33_0, V0_20_2, V0_15_1)}
LINE = tuple(reversed(PROFILES))
