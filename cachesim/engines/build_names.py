"""Lookup of rule sets by build, date, version, commit or pull request: ``b9700``, ``2026-06-03``, ``mlx_lm@0.31.1``,
``ik_llama@1970``.

The prefix ``ENGINE@`` selects an engine. Without it, a build or a date belongs to the first engine; a commit or
a version is looked up in all engines; a pull request needs it. The rules at a point between two recorded rule sets
are composed field by field (``shared.composition``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Mapping, NamedTuple

from cachesim.base import pool
from cachesim.base.errors import BadInput
from cachesim.engines import registry
from cachesim.engines.composition import ComposedRules, MainBranch, format_period
from cachesim.engines.contract import Engine
from cachesim.engines.registry import DEFAULT
from cachesim.engines.shared.rule_set import Change
from cachesim.engines.shared.timeline import UNKNOWN, Commit

_BUILD = re.compile(r"b(\d{1,9})")
_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_PULL = re.compile(r"\d{1,9}")
_VERSION = re.compile(r"v?(\d+(?:\.\d+){1,3}(?:\.post\d+)?)")


class ResolvedName(NamedTuple):
    """The rule set that a name denotes, a line that explains it, and a line for each field whose value is unknown
    there. ``is_composed``: the rule set was put together for this name."""

    profile: str
    note: str
    unknown: tuple[str, ...] = ()
    is_composed: bool = False


_known: dict[str, ResolvedName] = {}
_branches: dict[str, MainBranch] = {}


def resolve_name(text: str) -> ResolvedName | None:
    """Resolve a name that is not a profile; None if it is not a build, date, commit or version. A rule set
    between two recorded rule sets is registered, in this process and in the worker processes. Raise BadInput for a
    point without a known rule set."""
    known = _known.get(text)
    if known is not None and known.profile in registry.profiles():       # not of a registry that was replaced
        return known
    found = _looked_up(text)
    if found is not None:
        _known.update({text: found, found.profile: found} if found.is_composed else {text: found})
        pool.begin_with(resolve_name, text)
    return found


def _looked_up(text: str) -> ResolvedName | None:
    prefix, at_sign, name = text.rpartition("@")
    if at_sign:
        return _of(registry.ENGINES[prefix], name) if prefix in registry.ENGINES else _as_written(text)
    for engine in registry.ENGINES.values():
        full = f"{engine.name}@{text}"
        if full in engine.profiles or (text == "latest" and engine.newest):
            profile = engine.newest if text == "latest" else full
            return ResolvedName(profile, f"{text} -> {profile}{_in_force(engine, profile)}")
    if _BUILD.fullmatch(text) or _DATE.fullmatch(text):
        return _of(DEFAULT, text)
    found = (_of(engine, text) for engine in registry.ENGINES.values() if _point(engine, text) is not None)
    return next(found, None) or _as_written(text)


def _as_written(text: str) -> ResolvedName | None:
    """Return the rule set of a name as people write it (``llama.cpp-b9713``), None for any other text."""
    name = registry.written_name(text)
    if name == text:
        return None
    profile = registry.present_name(name)
    if profile in registry.profiles():
        return ResolvedName(profile, f"{text} -> {profile}")
    found = resolve_name(name)
    return None if found is None else found._replace(note=f"{text}: {found.note}")


def _point(engine: Engine, name: str) -> Commit | None:
    """Return the point in the engine's history that a name denotes, None if unknown. A build number is None for an
    engine without build numbers."""
    if build := _BUILD.fullmatch(name):
        return Commit(int(build[1]), "") if engine.when.own and engine.when.builds else None
    if _DATE.fullmatch(name):
        return Commit(UNKNOWN, name) if engine.when.own else None
    if version := _VERSION.fullmatch(name):
        return engine.when.releases.get(version[1])
    if _COMMIT.fullmatch(name):
        same = (point for commit, point in engine.when.releases.items()
                if _COMMIT.fullmatch(commit) and (name.startswith(commit) or commit.startswith(name)))  # fmt: skip
        return next(same, None)
    return engine.when.landed.get(f"#{name}") if _PULL.fullmatch(name) else None


def point_of(engine: Engine, profile: str) -> Commit | None:
    """Return the point in the engine's history of a rule set, None if unknown."""
    return engine.when.own.get(profile) or _point(engine, profile.partition("@")[2])


def main_branch(engine: Engine) -> MainBranch:
    """Return the main branch of an engine, which composes the rules at any of its points."""
    known = _branches.get(engine.name)
    if known is None or known.when is not engine.when:
        known = _branches[engine.name] = MainBranch(
            [engine.profiles[profile] for profile in engine.line if profile in engine.when.own], engine.when)
    return known


def builds_in_order(engine: Engine, log: bool = False) -> list[str]:
    """Return the rule sets of the main branch in order: the recorded ones and, between them, one for each point at
    which a decision (with ``log``, or the log) changed. The latter are registered. Without dates the order is that of
    ``Engine.line``."""
    own = engine.when.own
    made = list[tuple[Commit, str]]()
    place = Commit(UNKNOWN, "")
    for name in engine.line:
        place = own.get(name, place)                  # a rule set without a date follows its predecessor in the line
        made.append((place, name))
    if not own.keys() & {*engine.line}:
        return list(engine.line)
    for point in main_branch(engine).points(log):
        if point not in own.values() and (found := resolve_name(f"{engine.name}@{_name_at(engine, point)}")):
            made.append((point, found.profile))
    return list(dict.fromkeys(name for _, name in sorted(made, key=lambda one: one[0])))


def without_place(engine: Engine) -> list[str]:
    """Return the rule sets whose place in the history is unknown: outside the main branch, without a base or date."""
    placed = {*engine.line, *engine.beside}
    others = (name for name in engine.profiles if name not in placed)
    return [name for name in others if _point(engine, name.partition("@")[2]) is None]       # not composed for a build


def _name_at(engine: Engine, point: Commit) -> str:
    """Return the name of the point at which a change landed: its build, pull request, release or commit, or its
    date."""
    if engine.when.builds and point.number:
        return f"b{point.number}"
    points = {**{change.removeprefix("#"): at for change, at in engine.when.landed.items()}, **engine.when.releases}
    recorded = {*engine.line, *engine.beside}
    names = (name for name, at in points.items() if at == point and f"{engine.name}@{name}" not in recorded)
    return next(names, point.date)


def _of(engine: Engine, name: str) -> ResolvedName | None:
    """Return the rule set of this engine at a point. Raise BadInput."""
    if f"{engine.name}@{name}" in engine.profiles:
        return None
    point = _point(engine, name)
    branch = main_branch(engine)
    if point is None or not branch.line:
        if branch.line and (_VERSION.fullmatch(name) or _COMMIT.fullmatch(name)):
            first = engine.when.own[branch.line[0].name]
            releases = engine.when.releases.items()
            known = ", ".join(release for release, day in releases if "." in release and first.by(day))
            raise BadInput(f"{engine.name}@{name}: rules at this version are unknown",
                           hint=f"give a date{f', or one of {known}' if known else ''}")  # fmt: skip
        return None
    oldest, newest = (engine.when.own[rules.name] for rules in (branch.line[0], branch.line[-1]))
    if not oldest.by(point):
        raise BadInput(f"{name} is older than the oldest rule set",
                       hint=f"{branch.line[0].name}, {_label(engine, oldest)}")  # fmt: skip
    return _composed(engine, name, found=branch.at(point), point=point, newest=newest)


def _composed(engine: Engine, name: str, found: ComposedRules, point: Commit, newest: Commit) -> ResolvedName:
    """Return the rule set of this name. Rules that equal no recorded rule set are registered under it."""
    base = found.base.name
    numbered = point.number and newest.number
    recorded = point.number == newest.number if numbered else point.date == newest.date
    if base == main_branch(engine).line[-1].name and not recorded:
        return ResolvedName(base, f"{name} -> {base} of {_label(engine, newest)}, the newest recorded: "
                            f"{name} itself was not compared")  # fmt: skip
    if not found.changes:
        return ResolvedName(base, f"{name} -> {base}{_in_force(engine, base)}", found.notes)
    sources = dict.fromkeys(change.source or change.field for change in found.changes)
    label, full = f"{base} with {', '.join(sources)}", f"{engine.name}@{name}"
    rules = found.rules.changed({"name": full, "build": name, "source": f"{label}: composed, not recorded"})
    registry.add(rules, "; ".join((f"composed from {base}", *found.notes)), between=True)
    return ResolvedName(full, f"{name} -> {label}", found.notes, is_composed=True)


def _label(engine: Engine, point: Commit) -> str:
    build = f"b{point.number} " if engine.when.builds and point.number else ""
    return f"{build}({point.date})" if build else point.date


def build_of(profile: str) -> str:
    """Return the build (or the date) of a main-branch rule set, recorded or composed; "" for any other rule set."""
    engine = registry.ENGINES.get(profile.partition("@")[0])
    if engine is None or profile not in engine.profiles or profile in engine.beside:
        return ""
    point = point_of(engine, profile)
    return "" if point is None else _label(engine, engine.when.dated(point))


def life_in(profile: str, value: object) -> Mapping[str, str]:
    """Return the fields of a main-branch rule set that have this value, and since and until when they have it; {} for
    any other rule set."""
    engine = registry.ENGINES.get(profile.partition("@")[0])
    if engine is None or profile not in engine.profiles or profile in engine.beside:
        return {}
    point = point_of(engine, profile)
    found = {} if point is None else main_branch(engine).life_of(value, point)
    return {path: periods[0] for path, periods in found.items()}


def build_with(profile: str, change: Change) -> str:
    """Return the first build that contains a change of a rule set's engine, or its date; "" if unknown."""
    engine = registry.ENGINES.get(profile.partition("@")[0])
    point = engine.when.last_landed(change) if engine else None
    return _label(engine, point) if engine and point else ""


def in_force(engine: Engine, profile: str) -> tuple[str, ...]:
    """Return the period in which a main-branch rule set was in force, in builds (if the engine has them) and in dates;
    () for any other rule set."""
    if profile not in engine.when.own:
        return ()
    found = main_branch(engine).period(profile)
    dates = format_period(found, replace(engine.when, builds=False))
    return (format_period(found, engine.when), dates) if engine.when.builds else (dates,)


def _in_force(engine: Engine, profile: str) -> str:
    """Return the period of a main-branch rule set in brackets, with a leading space; "" if unknown."""
    periods = in_force(engine, profile)
    return f" (in force {periods[0]})" if periods else ""
