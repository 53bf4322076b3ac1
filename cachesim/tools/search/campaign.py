"""Conversation after conversation under one profile: what fails, how often, and the first of each kind.

A seed and a number of examples give the same findings in any number of processes, in whatever order they report: every
conversation is an integer.
"""

from __future__ import annotations

import gc
import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, Unwritable
from cachesim.base.pool import Unfinished, spread
from cachesim.engines.rule_files import rule_file_digest
from cachesim.judging.compare_answer import Judge
from cachesim.scenarios.notation.shrink import TRIES, shrink
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_case
from cachesim.tools.search.property_failure import DIED, SIMULATOR, Group, PropertyFailure
from cachesim.tools.search.run_properties import ALL, Cost, compared, failed, findings, shown

BLOCK = 50             # conversations that a process works on before it reports
SPREAD = 1 << 32       # conversation i of seed s is the integer s * SPREAD + i


class CampaignPlan(NamedTuple):
    """What is searched: everything but for how long. ``mode``: "provenance", or "exact", that is with numbers.
    ``against``: another profile under which the conversations are played too, "" = none."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...]
    mode: str
    seed: int
    against: str = ""

    @property
    def engine(self) -> str:
        """The name of the engine that plays."""
        return self.profile.partition("@")[0]

    @property
    def stem(self) -> str:
        """The name of the campaign's file, without what says that it is a part, and without suffix."""
        said = self if self.against else self[:-1]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]
        return f"campaign-{self.profile}-seed{self.seed}-{digest}"

    @property
    def rules(self) -> str:
        """What stands in the files of rules that are searched."""
        return " ".join(rule_file_digest(name) for name in (self.profile, self.against) if name)


class CampaignJob(NamedTuple):
    """Conversations first .. stop-1 of a plan's seed."""

    plan: CampaignPlan
    first: int
    stop: int


Found = list[tuple[int, PropertyFailure]]
Span = tuple[int, int]


class CampaignBlock(NamedTuple):
    """What a job found: pairs of conversation and finding; conversations played; refused ones, which the simulator
    does not model; the first conversation of the job and the one behind its last. Against another profile: only what
    that one does not have, what only that one has (``mended``), and what both evaluated."""

    found: Found
    played: int
    refused: int
    first: int = 0
    stop: int = 0
    mended: Sequence[tuple[int, PropertyFailure]] = ()
    cost: Cost = Cost()


@dataclass
class Failure:
    """Findings of one group: how many, the first conversation, and the case that became of it; ``kept`` is what an
    earlier run of the campaign told of that."""

    first: int
    finding: PropertyFailure
    times: int = 1
    small: DrawnConversation | None = None
    kept: Mapping[str, Any] | None = None

    @property
    def shrunk(self) -> bool:
        return self.small is not None or self.kept is not None


@dataclass
class Campaign:
    """Everything that was found so far. ``done``: the conversations of the seed that were played, first and behind the
    last, in order and with gaps between them. Against another profile: what only that one has (``mended``), and the
    tokens that both evaluated."""

    profile: str
    failures: dict[Group, Failure] = field(default_factory=dict)
    played: int = 0
    refused: int = 0
    done: list[tuple[int, int]] = field(default_factory=list)
    mended: dict[Group, Failure] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)

    def take(self, block: CampaignBlock) -> None:
        """Add what a job found."""
        self.played += block.played
        self.refused += block.refused
        self.done = joined([*self.done, (block.first, block.stop)])
        self.cost = self.cost.plus(block.cost)
        for failures, found in ((self.failures, block.found), (self.mended, block.mended)):
            for number, finding in found:
                _count(failures, number, finding)


def _count(failures: dict[Group, Failure], number: int, finding: PropertyFailure) -> None:
    """One more finding, of this conversation."""
    known = failures.get(finding.group)
    if known is None:
        failures[finding.group] = Failure(number, finding)
        return
    known.times += 1
    if number < known.first:
        known.first, known.finding, known.small, known.kept = number, finding, None, None


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers in as few spans as possible, in order."""
    out: list[tuple[int, int]] = []
    for first, stop in sorted(spans):
        if out and first <= out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        elif first < stop:
            out.append((first, stop))
    return out


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
def work(job: CampaignJob) -> CampaignBlock:
    """Play the conversations of a job. Raises Unwritable if there is no room for what the servers save."""
    judges: dict[str, Judge] = {}
    every: Found = []
    mended: Found = []
    refused, cost, plan = 0, Cost(), job.plan
    for i in range(job.first, job.stop):
        number = plan.seed * SPREAD + i
        try:
            case = draw_case(number, plan.engine, plan.models)
            if plan.against:
                two = compared(case, plan.profile, plan.against, plan.properties, judges, plan.mode)
                found, cost = two.new, cost.plus(two.cost)
                mended += ((number, one) for one in two.mended)
            else:
                found = findings(case, plan.profile, plan.properties, judges, mode=plan.mode)
            every += ((number, one) for one in found)
        except Unwritable:
            raise
        except Exception as error:      # one conversation that the simulator fails at does not end a campaign
            refused += (what := failed(error)) is None
            every += [] if what is None else [(number, what)]
    return CampaignBlock(every, job.stop - job.first, refused, job.first, job.stop, mended, cost)


def lost(job: CampaignJob, how: str) -> CampaignBlock:
    """The block of a job at which two processes ended, the last of them so."""
    seed = job.plan.seed
    numbers = {"first": job.first, "last": job.stop - 1, "seed": seed, "how": how}
    died = PropertyFailure(SIMULATOR, 0, DIED, numbers)
    return CampaignBlock([(seed * SPREAD + job.first, died)], 0, 0, job.first, job.stop)


def blocks(plan: CampaignPlan, stop: int, start: int = 0, done: Iterable[Span] = ()) -> Iterator[CampaignJob]:
    """The jobs of the conversations start .. stop-1, without those that are ``done`` (in order)."""
    for first, behind in gaps(done, start, stop):
        for at in range(first, behind, BLOCK):
            yield CampaignJob(plan, at, min(at + BLOCK, behind))


def gaps(done: Iterable[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """What of start .. stop-1 is in none of these spans, which are in order."""
    out = []
    for first, behind in [*done, (stop, stop)]:
        if start < min(first, stop):
            out.append((start, min(first, stop)))
        start = max(start, behind)
    return out


def block_count(spans: Iterable[tuple[int, int]]) -> int:
    """How many jobs these conversations are."""
    return sum(-(-(stop - first) // BLOCK) for first, stop in spans)


def run(todo: Iterable[CampaignJob], jobs: int) -> Iterator[CampaignBlock]:
    """The results in the order of the jobs, from so many processes."""
    todo = list(todo)
    for job, block in zip(todo, spread(work, todo, jobs), strict=True):
        yield lost(job, block.how) if isinstance(block, Unfinished) else block


def broken_in(case: DrawnConversation, plan: CampaignPlan, judges: dict[str, Judge]) -> list[PropertyFailure]:
    """What a plan finds in a conversation. Raises BadInput for what the engine cannot do."""
    if plan.against:
        return compared(case, plan.profile, plan.against, plan.properties, judges, plan.mode).new
    return shown(case, plan.profile, plan.properties, judges, plan.mode)


def shrunk(failure: Failure, plan: CampaignPlan, tries: int = TRIES) -> Failure:
    """The failure with the smallest case of its group."""
    judges: dict[str, Judge] = {}
    group = failure.finding.group
    wanted = plan._replace(properties=(group[0],)) if group[0] in ALL else plan

    def found(case: DrawnConversation) -> list[PropertyFailure]:
        try:
            return [one for one in broken_in(case, wanted, judges) if one.group == group]
        except BadInput:                # a case that cannot be played
            return []

    case = drawn(failure, plan)
    if case is None:
        return failure
    small = shrink(case, lambda case: bool(found(case)), tries, case.seed)
    again = found(small)
    return Failure(failure.first, again[0] if again else failure.finding, failure.times, small)


def drawn(failure: Failure, plan: CampaignPlan) -> DrawnConversation | None:
    """The conversation in which the failure was met first; None where it cannot be drawn, or is not known."""
    if failure.finding.kind == DIED:
        return None
    try:
        case = draw_case(failure.first, plan.engine, plan.models)
        case.scenario(plan.profile)
    except Exception:
        return None
    return case
