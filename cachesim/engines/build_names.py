"""``b9700``, ``2026-06-03``, ``mlx_lm@0.31.1``, ``head``: which rule set does such a name mean?

A name with ``ENGINE@`` in front is one of that engine. Without, a build or a date is one of the first engine; a commit,
a version or a nickname is looked up in all of them.
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
    """The rule set that a name means, and a line that says so."""

    profile: str
    note: str


_known: dict[str, ResolvedName] = {}


def resolve_name(text: str) -> ResolvedName | None:
    """What a name means that is no profile itself; None if it is no build, date, commit, version or nickname. A rule
    set that lies between recorded ones joins those that are known, here and in the processes that share the work.
    Raises BadInput for a point that no rule set is known for."""
    if text not in _known:
        found = _looked_up(text)
        if found is None:
            return None
        _known[text] = found
        pool.begin_with(resolve_name, text)
    return _known[text]


def _looked_up(text: str) -> ResolvedName | None:
    engine, at_sign, name = text.rpartition("@")
    if at_sign:
        return _of(ENGINES[engine], name) if engine in ENGINES else None
    for one in ENGINES.values():
        full = f"{one.name}@{text}"
        if full in one.profiles or full in one.renamed or (text == "latest" and one.newest):
            profile = one.newest if text == "latest" else one.renamed.get(full, full)
            return ResolvedName(profile, f"{text} -> {profile}{_in_force(one, profile)}")
    if _BUILD.fullmatch(text) or _DATE.fullmatch(text):
        return _of(DEFAULT, text)
    found = (_of(one, text) for one in ENGINES.values() if _point(one, text) is not None)
    return next(found, None)


def _point(engine: Engine, name: str) -> Landed | None:
    """The point that a name calls. Raises BadInput for a build of an engine that is not called by builds."""
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
    """The rule set of this engine at a point. Raises BadInput."""
    if f"{engine.name}@{name}" in engine.profiles:
        return None
    point = _point(engine, name)
    if point is None:
        if engine.when.own and (_VERSION.fullmatch(name) or _COMMIT.fullmatch(name)):
            first = engine.when.own[engine.line[0]]
            known = ", ".join(one for one, day in engine.when.releases.items() if "." in one and first.by(day))
            raise BadInput(f"{engine.name}@{name}: what was in force there is not known",
                           hint=f"give a date{f', or one of {known}' if known else ''}")  # fmt: skip
        return None
    line = [engine.profiles[one] for one in engine.line]
    oldest, newest = (engine.when.own[one.name] for one in (line[0], line[-1]))
    if not oldest.by(point):
        told = f"{line[0].name}, {_told(engine, oldest)}"
        raise BadInput(f"{name} is older than the oldest rule set", hint=f"that is {told}")
    found = rules_at(line, engine.when, point)
    numbered = point.number and newest.number
    recorded = point.number == newest.number if numbered else point.date == newest.date
    if found.base is line[-1] and not recorded:
        note = (f"{name} -> {found.base.name} of {_told(engine, newest)}, the newest recorded: "
                f"{name} itself was not compared")  # fmt: skip
        return ResolvedName(found.base.name, note)
    if not found.changes:
        profile = found.base.name
        return ResolvedName(profile, f"{name} -> {profile}{_in_force(engine, profile)}{_unsure(engine, found)}")
    # The rule set between two recorded ones, which is one of its engine's from now on.
    told, full = f"{found.base.name} with {_listed(found.changes)}", f"{engine.name}@{name}"
    source = f"{told}: put together, not recorded"
    between: RuleSet = replace(found.rules, name=full, build=name, source=source)  # type: ignore[type-var]
    add(between, f"put together from {found.base.name}", between=True)
    return ResolvedName(full, f"{name} -> {told}{_unsure(engine, found)}")


def _told(engine: Engine, point: Landed) -> str:
    build = f"b{point.number} " if engine.when.builds and point.number else ""
    return f"{build}({point.date})" if build else point.date


def build_of(profile: str) -> str:
    """The build at which a rule set of the main branch was recorded, or the date; "" for any other."""
    engine = ENGINES.get(profile.partition("@")[0])
    return _told(engine, engine.when.own[profile]) if engine and profile in engine.when.own else ""


def build_with(profile: str, change: Change) -> str:
    """The first build with a change of a rule set's engine, or its date; "" where that is not known."""
    engine = ENGINES.get(profile.partition("@")[0])
    point = engine.when.came(change) if engine else None
    return _told(engine, point) if engine and point else ""


def in_force(engine: Engine, profile: str) -> tuple[str, ...]:
    """From when to when a rule set of the main branch was in force, in builds where the engine has them, and in dates;
    () for any other."""
    if profile not in engine.when.own:
        return ()
    found = rule_set_period([engine.profiles[one] for one in engine.line], engine.when, profile)
    dates = format_period(found, replace(engine.when, builds=False))
    return (format_period(found, engine.when), dates) if engine.when.builds else (dates,)


def _in_force(engine: Engine, profile: str) -> str:
    """When a rule set of the main branch was in force, in brackets."""
    told = in_force(engine, profile)
    return f" (in force {told[0]})" if told else ""


def _listed(changes: Sequence[Change]) -> str:
    """Changes by their pull requests, those of unknown ones by their fields."""
    return ", ".join(dict.fromkeys(one.source or one.field for one in changes))


def _unsure(engine: Engine, found: InForce) -> str:
    """Changes that may have come by then, and those that had come in part."""
    partly = [one for one in found.unsure if engine.when.began(one) is not None]
    unknown = [one for one in found.unsure if one not in partly]
    told = f"; without {_listed(partly)}, of which a part had come" if partly else ""
    return f"{told}; when {_listed(unknown)} came is not known" if unknown else told
