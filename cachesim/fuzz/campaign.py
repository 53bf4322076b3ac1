"""Conversation after conversation under one profile: what fails, how often, and the first of each kind.

A seed and a number of examples give the same findings in any number of processes: every conversation is an integer.
"""

from __future__ import annotations

import gc
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterator, NamedTuple, Sequence

from cachesim.errors import BadInput
from cachesim.fuzz.bills import BILLS, monotone
from cachesim.fuzz.case import Case, draw_case
from cachesim.fuzz.facts import played
from cachesim.fuzz.properties import PROPERTIES, Finding
from cachesim.fuzz.shrink import shrink
from cachesim.judge.judge import Judge
from cachesim.judge.run import run_judged

BLOCK = 50             # conversations that a process works on before it reports
SPREAD = 1 << 32       # conversation i of seed s is the integer s * SPREAD + i


ALL = (*PROPERTIES, *BILLS, "monotone")


class Job(NamedTuple):
    """Conversations first .. stop-1 of a seed, under a profile, as far as these properties go. ``mode``: "provenance",
    or "exact", that is with numbers."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...]
    seed: int
    first: int
    stop: int
    mode: str = "provenance"


class Block(NamedTuple):
    """What a job found: pairs of conversation and finding; conversations played; refused ones, which the simulator
    does not model."""

    found: list[tuple[int, Finding]]
    played: int
    refused: int


@dataclass
class Failure:
    """Findings of one group: how many, the first conversation, and what became of it."""

    first: int
    finding: Finding
    times: int = 1
    small: Case | None = None


@dataclass
class Campaign:
    """Everything that was found so far."""

    profile: str
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    played: int = 0
    refused: int = 0

    def take(self, block: Block) -> None:
        """Add what a job found."""
        self.played += block.played
        self.refused += block.refused
        for number, finding in block.found:
            known = self.failures.get(finding.group)
            if known is None:
                self.failures[finding.group] = Failure(number, finding)
            else:
                known.times += 1
                if number < known.first:
                    known.first, known.finding = number, finding


def findings(
    case: Case, profile: str, properties: Sequence[str], judges: dict[str, Judge], table: Any | None = None,
    mode: str = "provenance",
) -> list[Finding]:
    """What is wrong with one conversation; ``table`` replaces the profile's rules, except for "monotone". Raises
    BadInput for what the engine cannot do."""
    scenario = case.scenario(profile)
    found: list[Finding] = []
    if plain := [name for name in properties if name in PROPERTIES]:
        one = played(scenario, profile, judges, table, mode)
        if one.unset:
            return []                       # its outcome depends on a number that nobody wrote: undecided
        found += [finding for name in plain for finding in PROPERTIES[name](one)]
    if bills := [name for name in properties if name in BILLS]:
        run = run_judged(scenario, profile, mode, table=table)
        found += [finding for name in bills for finding in BILLS[name](run)]
    if "monotone" in properties:
        found += monotone(scenario, profile)
    return found


@contextmanager
def rarely_collected() -> Iterator[None]:
    """Cycles are looked for after every hundred thousand objects: a conversation makes ten thousand, and looking after
    every few hundred takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@rarely_collected()
def work(job: Job) -> Block:
    """Play the conversations of a job."""
    judges: dict[str, Judge] = {}
    found, refused = [], 0
    engine = job.profile.partition("@")[0]
    for i in range(job.first, job.stop):
        number = job.seed * SPREAD + i
        try:
            case = draw_case(number, engine, job.models)
            found += [(number, one) for one in findings(case, job.profile, job.properties, judges, mode=job.mode)]
        except BadInput:
            refused += 1
        except Exception as error:      # one conversation that the simulator fails at does not end a campaign
            found.append((number, Finding("simulator", 0, type(error).__name__, str(error))))
    return Block(found, job.stop - job.first, refused)


def blocks(
    profile: str, properties: Sequence[str], models: Sequence[str], seed: int, stop: int, start: int = 0,
    mode: str = "provenance",
) -> list[Job]:
    """The jobs of the conversations start .. stop-1 of a seed."""
    return [Job(profile, tuple(properties), tuple(models), seed, first, min(first + BLOCK, stop), mode)
            for first in range(start, stop, BLOCK)]


def run(todo: Sequence[Job], jobs: int) -> Iterator[Block]:
    """The results in the order of the jobs, from so many processes."""
    if jobs < 2:
        yield from map(work, todo)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, todo)


def shrunk(
    failure: Failure, profile: str, models: Sequence[str], examples: int = 1500, mode: str = "provenance"
) -> Failure:
    """The failure with the smallest case of its group."""
    engine = profile.partition("@")[0]
    judges: dict[str, Judge] = {}
    group = failure.finding.group

    def fails(case: Case) -> bool:
        try:
            return any(one.group == group for one in findings(case, profile, (group[0],), judges, mode=mode))
        except Exception:               # a case that cannot be played, or that the simulator fails at
            return False

    small = shrink(draw_case(failure.first, engine, tuple(models)), fails, examples)
    again = [] if group[0] not in ALL else [
        one for one in findings(small, profile, (group[0],), judges, mode=mode) if one.group == group
    ]
    return Failure(failure.first, again[0] if again else failure.finding, failure.times, small)
