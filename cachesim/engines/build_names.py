"""Lookup of rule sets by build, date, version or commit: ``b9700``, ``2026-06-03``, ``mlx_lm@0.31.1``, ``head``.

The prefix ``ENGINE@`` selects an engine. Without it, a build or a date belongs to the first engine; a commit, a version
or a nickname is looked up in all engines.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple, Sequence

from cachesim.base import pool
from cachesim.base.errors import BadInput
from cachesim.engines.contract import Engine
from cachesim.engines.registry import DEFAULT, ENGINES, add
from cachesim.engines.shared.rule_set import Change, RuleSet
from cachesim.engines.shared.timeline import UNKNOWN, InForce, Landed, format_period, rule_set_period, rules_at

_BUILD = re.compile(r"b(\d{1,9})")
_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_VERSION = re.compile(r"v?(\d+(?:\.\d+){1,3})")


class ResolvedName(NamedTuple):
    """The rule set that a name denotes, and a line that explains it."""

    profile: str
    note: str


_known: dict[str, ResolvedName] = {}


def resolve_name(text: str) -> ResolvedName | None:
    """Resolve a name that is not a profile; None if it is not a build, date, commit, version or nickname. A rule set
    between two recorded rule sets is registered, in this process and in the worker processes. Raises BadInput for a
    point without a known rule set."""
    if text not in _known:
        found = _looked_up(text)
        if found is None:
            return None
        _known[text] = found
        pool.begin_with(resolve_name, text)
    return _known[text]


def _looked_up(text: str) -> ResolvedName | None:
    prefix, at_sign, name = text.rpartition("@")
    if at_sign:
        return _of(ENGINES[prefix], name) if prefix in ENGINES else None
    for engine in ENGINES.values():
        full = f"{engine.name}@{text}"
        if full in engine.profiles or full in engine.renamed or (text == "latest" and engine.newest):
            profile = engine.newest if text == "latest" else engine.renamed.get(full, full)
            return ResolvedName(profile, f"{text} -> {profile}{_in_force(engine, profile)}")
    if _BUILD.fullmatch(text) or _DATE.fullmatch(text):
        return _of(DEFAULT, text)
    found = (_of(engine, text) for engine in ENGINES.values() if _point(engine, text) is not None)
    return next(found, None)


def _point(engine: Engine, name: str) -> Landed | None:
    """Return the point in the engine's history that a name denotes, None if unknown. A build number is None for an
    engine without build numbers."""
    if build := _BUILD.fullmatch(name):
        return Landed(int(build[1]), "") if engine.when.own and engine.when.builds else None
    if _DATE.fullmatch(name):
        return Landed(UNKNOWN, name) if engine.when.own else None
    if version := _VERSION.fullmatch(name):
        return engine.when.releases.get(version[1])
    if _COMMIT.fullmatch(name):
        same = (point for commit, point in engine.when.releases.items()
                if _COMMIT.fullmatch(commit) and (name.startswith(commit) or commit.startswith(name)))  # fmt: skip
        return next(same, None)
    return None


def _of(engine: Engine, name: str) -> ResolvedName | None:
    """Return the rule set of this engine at a point. Raises BadInput."""
    if f"{engine.name}@{name}" in engine.profiles:
        return None
    point = _point(engine, name)
    if point is None:
        if engine.when.own and (_VERSION.fullmatch(name) or _COMMIT.fullmatch(name)):
            first = engine.when.own[engine.line[0]]
            releases = engine.when.releases.items()
            known = ", ".join(release for release, day in releases if "." in release and first.by(day))
            raise BadInput(f"{engine.name}@{name}: rules at this version are unknown",
                           hint=f"give a date{f', or one of {known}' if known else ''}")  # fmt: skip
        return None
    line = [engine.profiles[profile] for profile in engine.line]
    oldest, newest = (engine.when.own[rules.name] for rules in (line[0], line[-1]))
    if not oldest.by(point):
        raise BadInput(f"{name} is older than the oldest rule set", hint=f"{line[0].name}, {_label(engine, oldest)}")
    found = rules_at(line, engine.when, point)
    numbered = point.number and newest.number
    recorded = point.number == newest.number if numbered else point.date == newest.date
    if found.base is line[-1] and not recorded:
        note = (f"{name} -> {found.base.name} of {_label(engine, newest)}, the newest recorded: "
                f"{name} itself was not compared")  # fmt: skip
        return ResolvedName(found.base.name, note)
    if not found.changes:
        profile = found.base.name
        return ResolvedName(profile, f"{name} -> {profile}{_in_force(engine, profile)}{_unsure(engine, found)}")
    # Register a rule set between two recorded rule sets.
    label, full = f"{found.base.name} with {_listed(found.changes)}", f"{engine.name}@{name}"
    source = f"{label}: put together, not recorded"
    between: RuleSet = replace(found.rules, name=full, build=name, source=source)  # type: ignore[type-var]
    add(between, f"put together from {found.base.name}", between=True)
    return ResolvedName(full, f"{name} -> {label}{_unsure(engine, found)}")


def _label(engine: Engine, point: Landed) -> str:
    build = f"b{point.number} " if engine.when.builds and point.number else ""
    return f"{build}({point.date})" if build else point.date


def build_of(profile: str) -> str:
    """Return the build at which a main-branch rule set was recorded, or the date; "" for any other rule set."""
    engine = ENGINES.get(profile.partition("@")[0])
    return _label(engine, engine.when.own[profile]) if engine and profile in engine.when.own else ""


def build_with(profile: str, change: Change) -> str:
    """Return the first build that contains a change of a rule set's engine, or its date; "" if unknown."""
    engine = ENGINES.get(profile.partition("@")[0])
    point = engine.when.last_landed(change) if engine else None
    return _label(engine, point) if engine and point else ""


def in_force(engine: Engine, profile: str) -> tuple[str, ...]:
    """Return the period in which a main-branch rule set was in force, in builds (if the engine has them) and in dates;
    () for any other rule set."""
    if profile not in engine.when.own:
        return ()
    found = rule_set_period([engine.profiles[name] for name in engine.line], engine.when, profile)
    dates = format_period(found, replace(engine.when, builds=False))
    return (format_period(found, engine.when), dates) if engine.when.builds else (dates,)


def _in_force(engine: Engine, profile: str) -> str:
    """Return the period of a main-branch rule set in brackets, with a leading space; "" if unknown."""
    periods = in_force(engine, profile)
    return f" (in force {periods[0]})" if periods else ""


def _listed(changes: Sequence[Change]) -> str:
    """Return the pull requests of changes, or their fields if the pull request is unknown."""
    return ", ".join(dict.fromkeys(change.source or change.field for change in changes))


def _unsure(engine: Engine, found: InForce) -> str:
    """Return a remark on changes whose date is unknown and on changes that had landed only in part."""
    partly = [change for change in found.unsure if engine.when.first_landed(change) is not None]
    unknown = [change for change in found.unsure if change not in partly]
    remark = f"; without {_listed(partly)}, which had landed only in part" if partly else ""
    return f"{remark}; date of {_listed(unknown)} unknown" if unknown else remark
