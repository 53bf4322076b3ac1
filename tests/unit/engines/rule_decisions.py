"""Decisions of rules, with their numbers and a scenario in which they are taken: a text file for each folder of rules.

After a changed decision run python -m tests.unit.engines.rule_decisions, and read the difference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Decided
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import play

FOLDER = Path(__file__).parent
ENGINES = ("sglang",)


class TakenDecision(NamedTuple):
    """First decision of a kind in a run of a scenario."""

    rule: str
    scenario: str
    profile: str
    value: str
    because: str

    @property
    def kind(self) -> tuple[str, str]:
        """Rule and value without its numbers, except 0 and 1."""
        return self.rule, re.sub(r"\d{2,}|[2-9]", "#", self.value)


def file_of(engine: str) -> Path:
    """Return the file of an engine."""
    return FOLDER / engine / "rules" / "rule_decisions.txt"


def read(engine: str) -> list[TakenDecision]:
    """Return the decisions in an engine's file."""
    return [TakenDecision(*line.split(" | ", 4)) for line in file_of(engine).read_text("utf-8").splitlines()]


@cache
def decisions(scenario: str, profile: str) -> tuple[TakenDecision, ...]:
    """Return the decisions of a run, the first of each kind."""
    return tuple(_decisions(scenario, profile))


def _decisions(scenario: str, profile: str) -> Iterator[TakenDecision]:
    met = set()
    for event in play(load(corpus_files()[scenario], {*profiles()}), profile, "none").events:
        if isinstance(event, Decided):
            one = TakenDecision(event.rule, scenario, profile, repr(event.value), repr(dict(event.because)))
            if one.kind not in met:
                met.add(one.kind)
                yield one


def first_of_each_kind(runs: Iterable[tuple[str, str]]) -> list[TakenDecision]:
    """Return a decision of each kind in these runs."""
    found: dict[tuple[str, str], TakenDecision] = {}
    for run in runs:
        for one in decisions(*run):
            found.setdefault(one.kind, one)
    return sorted(found.values())


def write() -> None:
    """Write the files of all engines."""
    runs: dict[str, list[tuple[str, str]]] = {name: [] for name in ENGINES}
    for name, file in sorted(corpus_files().items()):
        for profile in load(file, {*profiles()}).expect:
            if (engine := engine_of(profile).name) in runs:
                runs[engine].append((name, profile))
    for engine, mine in runs.items():
        file_of(engine).write_text("".join(f"{' | '.join(one)}\n" for one in first_of_each_kind(mine)), "utf-8")


if __name__ == "__main__":
    write()
