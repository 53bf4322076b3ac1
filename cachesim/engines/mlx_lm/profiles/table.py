"""What is a version of mlx-lm's server made of? A table of rules, with the tables of its cache classes and its prompt
cache.

A field is a rule, a name or a table: never a boolean, which would be an ``if`` waiting in the driver.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Callable, Collection, Mapping

from cachesim.engines.mlx_lm.caches import CacheRules
from cachesim.engines.mlx_lm.lru import LruRules
from cachesim.engines.rule import Decision
from cachesim.engines.shared import tables
from cachesim.engines.shared.tables import Change

Rule = Callable[..., Decision]
TABLES = ("caches", "lru")


@dataclass(frozen=True)
class Rules:
    """One version. Fields in the order in which a request meets them. Of the two generators only one is in use: the
    fields of the other are those of a neighbour and never asked. ``final_type`` and ``checkpoint_type`` name the
    queues of finished conversations and of prompt checkpoints."""

    name: str
    build: str
    source: str
    batchable: Rule
    batching: Rule
    system_end: Rule
    tail: Rule
    cut_chat: Rule
    cut_other: Rule
    key: Rule
    rest: Rule
    position: Rule
    pc: Rule
    tails: Rule
    create_at_pc: Rule
    row: Rule
    create: Rule
    create_alone: Rule
    start_drafting: Rule
    cancel: Rule
    final_type: str
    checkpoint_type: str
    caches: CacheRules
    lru: LruRules
    defaults: Mapping[str, Any] = field(default_factory=dict, hash=False)
    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = field(default_factory=dict, hash=False)


def table_fields(rules: Rules) -> dict[str, Any]:
    """All fields of a profile by name; those of an inner table are written ``lru.victim``."""
    outer = tables.table_fields(rules)
    inner = {f"{name}.{field}": value for name in TABLES for field, value in tables.table_fields(outer[name]).items()}
    return {name: value for name, value in outer.items() if name not in TABLES} | inner


def changes(old: Rules, new: Rules) -> list[Change]:
    """What was changed between two versions; fields of an inner table are written ``lru.victim``."""
    found = [one for one in tables.changes(old, new) if one.field not in TABLES]
    for name in TABLES:
        a, b = (_Named(getattr(one, name), one.ended) for one in (old, new))
        found += [one._replace(field=f"{name}.{one.field}") for one in a.changes(b)]
    return found


class _Named:
    """An inner table that can be compared like an outer one."""

    def __init__(self, table: Any, ended: Mapping[str, str]) -> None:
        self.table, self.ended = table, ended

    def changes(self, other: _Named) -> list[Change]:
        return [Change(name, _told(a), _told(b), self._source(name, a, b))
                for name, a, b in tables.differences(self.table, other.table)]

    def _source(self, name: str, a: Any, b: Any) -> str:
        """What the rules themselves say comes first: a proposal does not end what a later version did."""
        return tables.changed_by({}, name, a, b) or str(self.ended.get(name, ""))


def _told(value: Any) -> str:
    return str(getattr(value, "rule", value))


def mixed(old: Rules, new: Rules, names: Collection[str]) -> Rules:
    """The older version with these fields of the newer one."""
    out: Rules = tables.mixed(old, new, [name for name in names if "." not in name])
    for table in TABLES:
        inner = [name.partition(".")[2] for name in names if name.startswith(f"{table}.")]
        out = replace(out, **{table: tables.mixed(getattr(out, table), getattr(new, table), inner)})
    return out
