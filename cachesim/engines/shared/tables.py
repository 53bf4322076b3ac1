"""How are two versions of an engine compared and mixed? A version is a frozen dataclass of rules and numbers.

Fields are rules or numbers; ``name``, ``build`` and ``source`` say which version it is, ``inferred`` what nobody saw
run, ``ended`` what ended a number.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any, Collection, Mapping, NamedTuple

from cachesim.engines.rule import about


def rule_fields(rules: Any) -> dict[str, Any]:
    """The profile's rules by field, in the order in which a request meets them."""
    return {f.name: getattr(rules, f.name) for f in fields(rules) if callable(getattr(rules, f.name))}


def table_fields(rules: Any) -> dict[str, Any]:
    """All fields of a profile by name, in their order: rules, numbers, and what says which version it is."""
    return {f.name: getattr(rules, f.name) for f in fields(rules)}


def differences(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Fields in which two profiles differ, names and sources aside."""
    skip = {"name", "build", "source", "ended", "inferred", "unset"}
    return [
        (f.name, getattr(a, f.name), getattr(b, f.name))
        for f in fields(a)
        if f.name not in skip and getattr(a, f.name) != getattr(b, f.name)
    ]


SAID = frozenset({
    "erase_told", "limit_told", "share_digits", "fatal_lines", "bad_batch_lines", "silent", "unlogged", "late",
    "outside",
})
"""Fields that change only what the log says, or what lies outside the simulator."""


class Change(NamedTuple):
    """A field in which two neighbouring versions differ: the rule's id or the number in each, and the change behind it
    ("" = not known)."""

    field: str
    old: str
    new: str
    source: str


def changes(old: Any, new: Any) -> list[Change]:
    """What was changed between two versions, the log aside."""
    return [
        Change(name, _told(a), _told(b), changed_by(old.ended, name, a, b))
        for name, a, b in differences(old, new) if name not in SAID
    ]


def _told(value: Any) -> str:
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


def mixed(old: Any, new: Any, names: Collection[str]) -> Any:
    """The older version with these fields of the newer one."""
    return replace(old, **{name: getattr(new, name) for name in names})
