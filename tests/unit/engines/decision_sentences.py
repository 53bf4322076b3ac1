"""Sentences about decisions, each with a scenario in which the decision is taken: a text file for each engine.

This is the only place that records the wording. ``python -m tests.unit.engines.decision_sentences`` rewrites the files
after a changed sentence or decision. A sentence after "~" reports that the decision changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from cachesim.engines.registry import BUILTIN, engine_of
from cachesim.engines.shared.sentences import NoEffect
from cachesim.events import Decided
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Scenario
from tests.scenarios.whole import corpus

FOLDER = Path(__file__).parent
MOST = 6               # rule sets of a scenario


class Spoken(NamedTuple):
    """First decision of a kind in a run of a scenario, in words."""

    rule: str
    scenario: str
    profile: str
    sentence: str

    @property
    def kind(self) -> tuple[str, str]:
        """Rule and sentence without its numbers."""
        return self.rule, re.sub(r"[\d.,]+", "#", self.sentence)


def file_of(engine: str) -> Path:
    """Return the file of an engine."""
    return FOLDER / engine / "decision_sentences.txt"


def read(engine: str) -> list[Spoken]:
    """Return the sentences of an engine's file."""
    return [Spoken(*line.split(" | ", 3)) for line in file_of(engine).read_text("utf-8").splitlines()]


@cache
def scenarios() -> dict[str, Scenario]:
    """Return the scenarios of the repository by id."""
    return {one.id: one for one in corpus()}


def spoken(scenario: str, profile: str) -> Iterator[Spoken]:
    """Yield the decisions of a run in words, the first of each kind."""
    found = play(scenarios()[scenario], profile, "none")
    engine, met = engine_of(profile), set()
    for event in found.events:
        if isinstance(event, Decided):
            text = engine.say(event.rule, event.value, event.because)
            one = Spoken(event.rule, scenario, profile, f"~{text}" if isinstance(text, NoEffect) else str(text))
            if text is not None and one.kind not in met:
                met.add(one.kind)
                yield one


def each_kind(runs: Iterable[tuple[str, str]]) -> list[Spoken]:
    """Return a sentence of each kind in these runs, from few and short runs: always from the run that has the most
    kinds left for its events."""
    left = {run: {one.kind: one for one in spoken(*run)} for run in runs}
    events = {(name, profile): len(play(scenarios()[name], profile, "none").events) for name, profile in left}
    found: list[Spoken] = []
    while any(left.values()):
        best = max(left, key=lambda run: (len(left[run]) / events[run], run))
        taken = left.pop(best)
        found += taken.values()
        for kinds in left.values():
            for kind in taken:
                kinds.pop(kind, None)
    return sorted(found)


def write() -> None:
    """Write the files of all engines."""
    runs: dict[str, list[tuple[str, str]]] = {name: [] for name in BUILTIN}
    for name, scenario in sorted(scenarios().items()):
        for profile in [*scenario.expect][:MOST]:
            runs[engine_of(profile).name].append((name, profile))
    for engine, mine in runs.items():
        file_of(engine).write_text("".join(f"{' | '.join(one)}\n" for one in each_kind(mine)), "utf-8")


if __name__ == "__main__":
    write()
