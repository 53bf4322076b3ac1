"""Rule sets: a version of an engine as a frozen dataclass of rules, numbers and tables of them.

``name``, ``build`` and ``source`` identify the version. Comparing and mixing two versions is common to all engines.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Mapping, Set  # a check against typing's names is slow
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from types import MappingProxyType
from typing import AbstractSet, Any, Callable, Collection, NamedTuple, Self, Sequence, TypeVar

from cachesim.engines.rule import Source, about

R = TypeVar("R", bound="RuleSet")
T = TypeVar("T")


class Change(NamedTuple):
    """A field that differs between two neighbouring versions: rule id or number in each, and the source of the change
    ("" = unknown)."""

    field: str
    old: str
    new: str
    source: str


LOG_FIELDS = frozenset({"erase_told", "limit_told", "share_digits", "fatal_lines", "bad_batch_lines", "silent",
                        "empty_batch_line", "failed_drafter", "no_cells_line", "unlogged", "late", "outside"})
"""Fields that affect only the log, or parts outside the simulator."""
DESCRIPTION_FIELDS = frozenset({"name", "build", "source", "ended", "inferred", "unset"})
"""Fields that describe a version and affect no decision."""


@dataclass(frozen=True)
class Version:
    """What identifies a version: the first fields of every rule set."""

    name: str
    build: str
    source: str


class RuleSet(Version, ABC):
    """A version of an engine, a base class of frozen dataclasses without a ``repr`` of their own. A field is a rule, a
    number, or a table: a frozen dataclass whose fields are addressed as ``table.field``."""

    inferred: tuple[str, ...] = ()                                   # fields never observed on a real server
    ended: Mapping[str, str] = MappingProxyType({})                  # field -> change that ended it, unless in its rule
    defaults: Mapping[str, Any] = MappingProxyType({})               # flag defaults that differ from the engine's
    silent: frozenset[str] = frozenset()                             # kinds of events that this build does not log
    unlogged: Mapping[str, AbstractSet[str]] = MappingProxyType({})  # event kind -> fields that are not logged
    late: frozenset[str] = frozenset()                               # kinds logged with delay, by another thread
    unset: Mapping[Any, int] = MappingProxyType({})                  # content of numbers never written, default 0

    @property
    def thread(self) -> str:
        """Pull request with which ``source`` begins, "" if it begins otherwise."""
        found = re.match(r"\S+#\d+", self.source)
        return found[0] if found else ""

    def __repr__(self) -> str:
        return f"<rule set {self.name}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print ``repr``: IPython and Hypothesis print the fields of a dataclass otherwise."""
        printer.text(repr(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return the rule set itself: copies of a server share its rules, which do not change."""
        return self

    def fields(self) -> dict[str, object]:
        """Return all fields by name, in their order: rules, numbers, and the fields that identify the version."""
        return {**self._fields}

    @cached_property
    def _fields(self) -> dict[str, object]:
        out, inner = dict[str, object](), dict[str, object]()
        for name, value in table_fields(self).items():
            if not callable(value) and is_table(value):
                inner |= {f"{name}.{field}": one for field, one in table_fields(value).items()}
            else:
                out[name] = value
        return out | inner

    @cached_property
    def rules_by_field(self) -> Mapping[str, Callable[..., Any]]:
        """Rules by field, including those of inner tables."""
        return {field: fn for field, fn in self._fields.items() if callable(fn) and hasattr(fn, "about")}

    def derived(self, field: str, read: Callable[[Any], T]) -> T:
        """Return what ``read`` derives from the value of a field. A run that asks so depends on nothing else of the
        value. ``read`` depends on nothing that changes."""
        return read(getattr(self, field))

    def has(self, field: str, member: str) -> bool:
        """True if the value of a field contains a member."""
        return self.derived(field, lambda value: member in value)

    def options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a server: those given, and this version's own defaults for the others."""
        return self.derived("defaults", lambda defaults: {**defaults, **given})

    def changes(self, newer: Self, log: bool = False) -> list[Change]:
        """Return the changes between this version and a newer version by path (see ``leaves``); ``log``: with those
        that only affect the log."""
        old, new = self.leaves(), newer.leaves()
        return [Change(path, _label(old.get(path)), _label(new.get(path)), self.source_of(newer, path))
                for path in {**old, **new} if old.get(path) != new.get(path)
                and (log or path.partition(".")[0] not in LOG_FIELDS)]  # fmt: skip

    def leaves(self) -> dict[str, Any]:
        """Return every value that can change by itself, by path: rules and numbers, ``table.field`` of inner tables,
        ``mapping.key`` of mappings, ``set.member`` (True) of sets. Descriptive fields and empty values are left out."""
        return {**self._leaves}

    @cached_property
    def _leaves(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, value in self._fields.items():
            if name in DESCRIPTION_FIELDS:
                continue
            if callable(value):
                out[name] = value
            elif isinstance(value, Mapping):
                out |= {f"{name}.{key}": entry for key, entry in value.items() if entry != frozenset()}
            elif isinstance(value, Set):
                out |= {f"{name}.{member}": True for member in sorted(value, key=str)}   # a set has no order
            else:
                out[name] = value
        return out

    def with_leaves(self, values: Mapping[str, Any]) -> Self:
        """Return this version with other values at these paths (see ``leaves``); None removes an entry of a mapping or
        a set."""
        given: dict[str, Any] = {}
        for path, value in values.items():
            outer, _, key = path.partition(".")
            own = given.get(outer, getattr(self, outer))
            if isinstance(own, Mapping):
                given[outer] = {**{k: v for k, v in own.items() if k != key}, **({} if value is None else {key: value})}
            elif isinstance(own, Set):
                given[outer] = frozenset(own - {key} if value is None else own | {key})
            else:
                given[path] = value
        return self.changed(given)

    def source_of(self, newer: Self, path: str) -> str:
        """Return the source of the change of a path (see ``leaves``) between this version and a newer one; "" if
        unknown."""
        outer, _, key = path.partition(".")
        old, new = getattr(self, outer), getattr(newer, outer)
        if path in self.ended:
            return self.ended[path]
        if is_table(old):
            # The rules' own sources come first: a proposal did not end a rule that a later version ended.
            return changed_by({}, key, getattr(old, key), getattr(new, key)) or self.ended.get(key, "")
        return changed_by(self.ended, outer, old, new)

    def described(self, unseen: Collection[str], ended: Mapping[str, str]) -> Self:
        """Return this version with these fields, too, marked as never observed, and with these sources of the changes
        that ended its values."""
        added = [path for path in unseen if path in self.fields() and path not in self.inferred]
        return self.changed({"inferred": (*self.inferred, *sorted(added)), "ended": ended})

    def mixed(self, newer: Self, names: Collection[str]) -> Self:
        """Return this version with these fields or paths (see ``leaves``) of the newer version. Raise AttributeError
        for an unknown field."""
        leaves = newer._leaves
        whole = [name for name in names if name not in leaves and "." not in name]
        return self.changed({name: getattr(newer, name) for name in whole}).with_leaves(
            {name: leaves.get(name) for name in names if name not in whole}
        )

    def changed(self, values: Mapping[str, Any]) -> Self:
        """Return this version with other values in these fields; fields of a table are written ``table.field``."""
        if not values:
            return self
        inner: dict[str, dict[str, Any]] = {}
        for name in (name for name in values if "." in name):
            outer, _, field = name.partition(".")
            inner.setdefault(outer, {})[field] = values[name]
        plain = {name: value for name, value in values.items() if "." not in name}
        tables = {name: with_fields(getattr(self, name), given) for name, given in inner.items()}
        found = with_fields(self, {**plain, **tables})
        known = vars(self).get("_fields", {})
        if values.keys() <= known.keys() and all(callable(value) or not is_table(value) for value in values.values()):
            vars(found)["_fields"] = {**known, **values}         # instead of collecting all fields again
        return found


def rule_sets_in(kind: type[R], *namespaces: Mapping[str, object]) -> dict[str, R]:
    """Return the rule sets of an engine that the public variables of modules hold, by name, in the order of their
    definition. The modules come in the order in which they import each other."""
    public = (value for names in namespaces for name, value in names.items() if not name.startswith("_"))
    return {value.name: value for value in public if isinstance(value, kind)}


def newest_first(found: Mapping[str, R], line: Sequence[str], beside: Mapping[str, str]) -> dict[str, R]:
    """Return the rule sets by name: those of the main branch, newest first, each followed by those beside it. Raise
    KeyError for a rule set that is neither on the main branch nor beside it, and for a name without a rule set."""
    if missing := {*line, *beside} - found.keys():
        raise KeyError(f"no rule set: {', '.join(sorted(missing))}")
    place = {name: -at for at, name in enumerate(line)}
    order = sorted(found, key=lambda name: (place[beside.get(name, name)], name in beside))
    return {name: found[name] for name in order}


def instead_of(released: Callable[..., Any]) -> Source:
    """Return the source of a proposed rule: the place of the released rule that it replaces."""
    return about(released).source._replace(note="proposed by cachesim, not tried on a GPU")


def is_table(value: object) -> bool:
    """True if the value of a field is a table of rules."""
    return is_dataclass(value) and not isinstance(value, type)


def table_fields(rules: Any) -> dict[str, Any]:
    """Return the fields of a table by name, in their order."""
    return {f.name: getattr(rules, f.name) for f in fields(rules)}


def with_fields(table: T, values: Mapping[str, Any]) -> T:
    """Return a table with other values in these fields. Raise TypeError for a field that it lacks.

    ``dataclasses.replace`` calls the initializer of a frozen dataclass, which assigns more than a hundred fields one by
    one and takes three times as long."""
    known: Mapping[str, Any] = table.__dataclass_fields__  # type: ignore[attr-defined]
    for name in values:
        if name not in known:
            raise TypeError(f"{type(table).__name__} got an unexpected keyword argument '{name}'")
    found = object.__new__(type(table))
    vars(found).update(vars(table))
    for name in vars(table).keys() - known:
        if isinstance(getattr(type(table), name, None), cached_property):
            del vars(found)[name]                    # derived from the old values
    vars(found).update(values)
    return found


def differences(a: Any, b: Any) -> Sequence[tuple[str, Any, Any]]:
    """Return the fields in which two tables differ, except the fields that describe the version."""
    pairs = ((f.name, getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name not in DESCRIPTION_FIELDS)
    return [(name, old, new) for name, old, new in pairs if old != new]


def _label(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Set):
        return ", ".join(sorted(map(str, value)))
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_label(value[name])}" for name in sorted(value))
    return str(getattr(value, "rule", value))


def changed_by(ended: Mapping[str, str], name: str, a: Any, b: Any) -> str:
    """Return the pull request that ended the older rule or began the newer rule; "" if unknown."""
    if name in ended or not callable(a) or not callable(b):
        return str(ended.get(name, ""))
    began, gone = about(b), about(a)
    if began.source.pull:
        return f"#{began.source.pull}"
    numbers = (re.match(r"#\d+", text) for text in (gone.until, began.since))
    return next((found[0] for found in numbers if found), "")
