"""All scenarios of the repository, and their heads, each read once in a process: several test modules ask while they
are collected."""

from __future__ import annotations

from functools import cache

from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.scenarios.corpus import corpus_root
from cachesim.scenarios.load import find, load_each
from cachesim.scenarios.scenario_heads import ScenarioHead, read_heads
from cachesim.scenarios.schema import Scenario


@cache
def corpus() -> tuple[Scenario, ...]:
    """The scenarios, in the order of their files."""
    found = [*load_each(find([corpus_root()]), set(profiles()))]
    for one in found:
        if isinstance(one, BadInput):
            raise one
    return tuple(found)


@cache
def heads() -> tuple[ScenarioHead, ...]:
    """The heads of these scenarios, in the same order."""
    return tuple(read_heads(find([corpus_root()])))
