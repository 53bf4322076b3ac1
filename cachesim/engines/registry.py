"""Which engines are there, and how is one of their servers started and looked into?

Everything above asks for an engine by name and gets the same handful of functions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Mapping, Sequence

import numpy as np

from cachesim.engines import ik_llama, llama_cpp, mlx_lm
from cachesim.engines.base import Answer
from cachesim.engines.manual import Manual
from cachesim.engines.view import Point, Stored
from cachesim.errors import BadInput, nearest, quoted
from cachesim.events import Log

MODES = ("none", "provenance", "exact")
"""How much is computed: positions only; which token went where; that and the numbers."""


@dataclass(frozen=True, slots=True)
class EngineKit:
    """One engine. ``start(profile, model, flags, mode, log)`` gives a server, of a profile's name or of a table; the
    next seven look into it: ``held`` are the positions of a sequence's rows, ``over`` limits that are exceeded.
    ``line`` are its versions in order, oldest first, ``beside`` proposals and what they were made on; ``changes(old,
    new)`` lists what differs between two tables, ``mixed(old, new, fields)`` gives the older one with fields of the
    newer; ``fields`` are all rules and numbers of a table by name, those of tables inside it too; ``sentence`` says a
    decision in words; ``manual``: what can be asked of its server. ``newest``
    is the newest recorded version, ``renamed`` maps old names of profiles to present ones, ``notes`` what a reader of
    a profile's name should know."""

    profiles: Mapping[str, Any]
    commits: Mapping[str, str]
    start: Callable[[Any, str, Mapping[str, Any], str, Log], Any]
    live: Callable[[Any, int], Stored]
    kept: Callable[[Any], Sequence[Stored]]
    points: Callable[[Any], Sequence[Point]]
    checkpoints: Callable[[Any, int], list[int]]
    agrees: Callable[[Any, Answer], bool]
    line: Sequence[str]
    beside: Mapping[str, str]
    changes: Callable[[Any, Any], Sequence[Any]]
    mixed: Callable[[Any, Any, Collection[str]], Any]
    held: Callable[[Any, int], np.ndarray]
    over: Callable[[Any], list[str]]
    fields: Callable[[Any], Mapping[str, Any]]
    sentence: Callable[[str, Any, Mapping[str, Any]], str | None]
    manual: Manual
    newest: str = ""
    renamed: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


ENGINES: dict[str, EngineKit] = {
    "llama_cpp": EngineKit(
        llama_cpp.PROFILES, llama_cpp.COMMITS, llama_cpp.start, llama_cpp.live, llama_cpp.kept, llama_cpp.points,
        llama_cpp.checkpoints, llama_cpp.agrees, llama_cpp.LINE, llama_cpp.BESIDE, llama_cpp.changes, llama_cpp.mixed,
        llama_cpp.held, llama_cpp.over, llama_cpp.table_fields, llama_cpp.SENTENCES.say, llama_cpp.MANUAL,
        llama_cpp.NEWEST, llama_cpp.RENAMED, llama_cpp.NOTES,
    ),
    "ik_llama": EngineKit(
        ik_llama.PROFILES, ik_llama.COMMITS, ik_llama.start, ik_llama.live, ik_llama.kept, ik_llama.points,
        ik_llama.checkpoints, ik_llama.agrees, ik_llama.LINE, ik_llama.BESIDE, ik_llama.changes, ik_llama.mixed,
        ik_llama.held, ik_llama.over, ik_llama.table_fields, ik_llama.SENTENCES.say, ik_llama.MANUAL,
    ),
    "mlx_lm": EngineKit(
        mlx_lm.PROFILES, mlx_lm.COMMITS, mlx_lm.start, mlx_lm.live, mlx_lm.kept, mlx_lm.points,
        mlx_lm.checkpoints, mlx_lm.agrees, mlx_lm.LINE, mlx_lm.BESIDE, mlx_lm.changes, mlx_lm.mixed,
        mlx_lm.held, mlx_lm.over, mlx_lm.table_fields, mlx_lm.SENTENCES.say, mlx_lm.MANUAL,
    ),
}
COMMITS: dict[str, str] = {commit: name for kit in ENGINES.values() for commit, name in kit.commits.items()}


def profiles() -> dict[str, Any]:
    """All profiles of all engines, by name."""
    return {name: rules for kit in ENGINES.values() for name, rules in kit.profiles.items()}


def profile_fields(profile: str) -> Mapping[str, Any]:
    """All rules and numbers of a profile by name. Raises BadInput for an unknown profile."""
    kit = engine_of(profile)
    return kit.fields(kit.profiles[profile])


def engine_of(profile: str) -> EngineKit:
    """The engine that a profile belongs to. Raises BadInput for an unknown profile."""
    for kit in ENGINES.values():
        if profile in kit.profiles:
            return kit
    raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, profiles()))


def latest() -> dict[str, str]:
    """``<engine>@latest`` -> the newest recorded profile of the engine."""
    return {f"{engine}@latest": kit.newest for engine, kit in ENGINES.items() if kit.newest}


def renamed() -> dict[str, str]:
    """Old names of profiles -> present ones."""
    return {old: new for kit in ENGINES.values() for old, new in kit.renamed.items()}


def notes() -> dict[str, str]:
    """What a reader of a profile's name should know, by profile."""
    return {name: note for kit in ENGINES.values() for name, note in kit.notes.items()}
