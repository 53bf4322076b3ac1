"""What is a version of an engine? A rule set: a frozen dataclass of rules and numbers, and tables of them.

``name``, ``build`` and ``source`` say which version it is. How two versions are compared and mixed is the same for
every engine.
"""

from __future__ import annotations

import re
from abc import ABC
from dataclasses import fields, is_dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import AbstractSet, Any, Collection, Mapping, NamedTuple, Self, Sequence

from cachesim.engines.rule import about


class Change(NamedTuple):
    """A field in which two neighbouring versions differ: the rule's id or the number in each, and the change behind it
    ("" = not known)."""

    field: str
    old: str
    new: str
    source: str


LOG_FIELDS = frozenset({"erase_told", "limit_told", "share_digits", "fatal_lines", "bad_batch_lines", "silent",
                        "unlogged", "late", "outside"})
"""Fields that change only what the log says, or what lies outside the simulator."""
DESCRIPTION_FIELDS = frozenset({"name", "build", "source", "ended", "inferred", "unset"})
"""Fields that describe a version and decide nothing."""


class RuleSet(ABC):
    """One version of an engine, as a base of frozen dataclasses. A field is a rule or a number, or a table of them: a
    frozen dataclass, whose fields are called ``table.field``.

    ``inferred`` are fields that nobody saw run, ``ended`` the change that ended a field's value where its rule does not
    say so, ``defaults`` flags whose default is not that of the engine's options. Of the log: ``silent`` are kinds of
    events that this build does not write, ``unlogged`` fields of written ones by kind, ``late`` kinds that another
    thread writes some time after they happened. ``unset``: what numbers hold that nobody wrote, 0 where nothing is
    said.
    """

    name: str
    build: str
    source: str

    inferred: tuple[str, ...] = ()
    ended: Mapping[str, str] = MappingProxyType({})
    defaults: Mapping[str, Any] = MappingProxyType({})
    silent: frozenset[str] = frozenset()
    unlogged: Mapping[str, AbstractSet[str]] = MappingProxyType({})
    late: frozenset[str] = frozenset()
    unset: Mapping[Any, int] = MappingProxyType({})

    def fields(self) -> dict[str, object]:
        """All fields by name, in their order: rules, numbers, and what says which version it is."""
        out = table_fields(self)
        inner = {f"{name}.{field}": value for name, table in out.items() if is_table(table)
                 for field, value in table_fields(table).items()}  # fmt: skip
        return {name: value for name, value in out.items() if not is_table(value)} | inner

    def changes(self, newer: Self) -> list[Change]:
        """What was changed between this version and a newer one, the log aside."""
        rows = [one for one in differences(self, newer) if one[0] not in LOG_FIELDS]
        found = [Change(name, _told(a), _told(b), changed_by(self.ended, name, a, b))
                 for name, a, b in rows if not is_table(a)]  # fmt: skip
        for outer, a, b in (one for one in rows if is_table(one[1])):
            # What the rules themselves say comes first: a proposal does not end what a later version did.
            for name, x, y in differences(a, b):
                source = changed_by({}, name, x, y) or self.ended.get(name, "")
                found.append(Change(f"{outer}.{name}", _told(x), _told(y), source))
        return found

    def mixed(self, newer: Self, names: Collection[str]) -> Self:
        """This version with these fields of the newer one. Raises AttributeError for a name that is no field."""
        return self.changed({name: attrgetter(name)(newer) for name in names})

    def changed(self, values: Mapping[str, object]) -> Self:
        """This version with other values in these fields, those of a table written ``table.field``."""
        inner: dict[str, dict[str, object]] = {}
        for name in (name for name in values if "." in name):
            outer, _, field = name.partition(".")
            inner.setdefault(outer, {})[field] = values[name]
        mine = {name: value for name, value in values.items() if "." not in name}
        tables = {name: replace(getattr(self, name), **given) for name, given in inner.items()}
        table: Any = self
        made: Self = replace(table, **mine, **tables)
        return made


def is_table(value: object) -> bool:
    """Is the value of a field a table of rules?"""
    return is_dataclass(value) and not isinstance(value, type)


def rule_fields(rules: Any) -> dict[str, Any]:
    """The profile's rules by field, in the order in which a request meets them."""
    return {f.name: getattr(rules, f.name) for f in fields(rules) if callable(getattr(rules, f.name))}


def table_fields(rules: Any) -> dict[str, Any]:
    """The fields of one table by name, in their order."""
    return {f.name: getattr(rules, f.name) for f in fields(rules)}


def differences(a: Any, b: Any) -> Sequence[tuple[str, Any, Any]]:
    """Fields in which two tables differ, names and sources aside."""
    pairs = ((f.name, getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name not in DESCRIPTION_FIELDS)
    return [(name, mine, theirs) for name, mine, theirs in pairs if mine != theirs]


def _told(value: object) -> str:
    return str(getattr(value, "rule", value))


def changed_by(ended: Mapping[str, str], name: str, a: Any, b: Any) -> str:
    """The pull request that ended the older rule or began the newer one."""
    if name in ended or not callable(a):
        return str(ended.get(name, ""))
    began, gone = about(b), about(a)
    if began.source.pull:
        return f"#{began.source.pull}"
    numbers = (re.match(r"#\d+", text) for text in (gone.until, began.since))
    return next((found[0] for found in numbers if found), "")
