"""Which engines are there? The one place that knows their names; everything above asks here, by name."""

from __future__ import annotations

from typing import Mapping

from cachesim.engines import ik_llama, llama_cpp, mlx_lm
from cachesim.engines.contract import Engine
from cachesim.engines.shared.tables import RuleSet
from cachesim.errors import BadInput, nearest, quoted

MODES = ("none", "provenance", "exact")
"""How much is computed: positions only; which token went where; that and the numbers."""

ENGINES: dict[str, Engine] = {one.name: one for one in (llama_cpp.ENGINE, ik_llama.ENGINE, mlx_lm.ENGINE)}
"""All engines by name; the first one is meant where none is named."""

COMMITS: dict[str, str] = {
    commit: name for engine in ENGINES.values() for commit, name in engine.recorded.commits.items()
}
"""Commit (or build) of a recording that names no profile -> profile."""


def profiles() -> dict[str, RuleSet]:
    """All profiles of all engines, by name."""
    return {name: rules for engine in ENGINES.values() for name, rules in engine.profiles.items()}


def rules_of(profile: str) -> RuleSet:
    """The rule set of this name. Raises BadInput for an unknown profile."""
    return engine_of(profile).rules(profile)


def engine_of(profile: str) -> Engine:
    """The engine that a profile belongs to. Raises BadInput for an unknown profile."""
    for engine in ENGINES.values():
        if profile in engine.profiles:
            return engine
    raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, profiles()))


def engine_named(name: str) -> Engine:
    """The engine of this name. Raises BadInput for an unknown one."""
    if name not in ENGINES:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, ENGINES) or ", ".join(ENGINES))
    return ENGINES[name]


def recorded_as(name: str) -> Engine:
    """The engine whose recordings bear this name. Raises BadInput for an unknown one."""
    known = {engine.recorded.name: engine for engine in ENGINES.values()}
    if name not in known:
        raise BadInput(f"unknown engine {quoted(name)}", hint=nearest(name, known))
    return known[name]


def latest() -> dict[str, str]:
    """``<engine>@latest`` -> the newest recorded profile of the engine."""
    return {f"{name}@latest": engine.newest for name, engine in ENGINES.items() if engine.newest}


def renamed() -> dict[str, str]:
    """Old names of profiles -> present ones."""
    return {old: new for engine in ENGINES.values() for old, new in engine.renamed.items()}


def notes() -> Mapping[str, str]:
    """What a reader of a profile's name should know, by profile."""
    return {name: note for engine in ENGINES.values() for name, note in engine.notes.items()}
