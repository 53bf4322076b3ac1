"""Search of drawn conversations under a profile: failures, their counts and the first conversation of each group.

Every conversation is identified by an integer. A seed and a number of examples therefore give the same findings for any
number of processes and any order of their results.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, Unwritable
from cachesim.base.garbage_collection import with_rare_garbage_collection
from cachesim.base.pool import KilledItem, spread
from cachesim.engines.rule_files import rule_file_digest
from cachesim.judging.compare_answer import Judge
from cachesim.judging.fault_kinds import FaultKind
from cachesim.scenarios.notation.shrink import TRIES, shrink
from cachesim.tools.search.drawn_conversation import DrawnConversation, draw_conversation
from cachesim.tools.search.property_failure import SIMULATOR, Group, PropertyFailure
from cachesim.tools.search.run_properties import ALL, CampaignCost, compared, failed, findings, shown

BLOCK = 50             # conversations in the job of a process
SPREAD = 1 << 32       # conversation i of seed s is the integer s * SPREAD + i


class CampaignPlan(NamedTuple):
    """Search parameters without the duration."""

    profile: str
    properties: tuple[str, ...]
    models: tuple[str, ...]
    mode: str                   # "provenance", or "exact": with arithmetic
    seed: int
    against: str = ""           # another profile under which the conversations also run

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.profile.partition("@")[0]

    @property
    def stem(self) -> str:
        """Name of the file that stores the results of this search, without ``Shard.suffix`` and ``.json``."""
        said = self if self.against else self[:-1]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:8]
        return f"campaign-{self.profile}-seed{self.seed}-{digest}"

    @property
    def rules(self) -> str:
        """Digests of the rule files that are searched."""
        return " ".join(rule_file_digest(name) for name in (self.profile, self.against) if name)


class CampaignJob(NamedTuple):
    """Conversations first .. stop-1 of a plan's seed."""

    plan: CampaignPlan
    first: int
    stop: int


Found = list[tuple[int, PropertyFailure]]
Span = tuple[int, int]


class CampaignBlock(NamedTuple):
    """Result of a campaign job, which runs a block of consecutive conversations. If two profiles are compared,
    ``found`` has only the failures that the other profile does not have."""

    found: Found                                                # pairs of conversation and finding
    played: int                                                 # conversations that ran
    refused: int                                                # conversations that the simulator does not support
    first: int = 0                                              # first conversation of the job
    stop: int = 0                                               # conversation after its last
    mended: Sequence[tuple[int, PropertyFailure]] = ()          # findings of only the other profile
    cost: CampaignCost = CampaignCost()                                         # tokens evaluated under both profiles


@dataclass
class Failure:
    """Findings of a group."""

    first: int                                  # first conversation that shows it
    finding: PropertyFailure                    # of that conversation
    times: int = 1
    small: DrawnConversation | None = None      # the shrunk case
    kept: Mapping[str, Any] | None = None       # data of the shrunk case from an earlier run of the campaign

    @property
    def is_shrunk(self) -> bool:
        return self.small is not None or self.kept is not None


@dataclass
class Campaign:
    """All results so far. Against another profile ``failures`` has only the failures that the other does not have."""

    profile: str
    failures: dict[Group, Failure] = field(default_factory=dict)
    played: int = 0                                                     # conversations that ran
    refused: int = 0                                                    # conversations that are not supported
    done: list[tuple[int, int]] = field(default_factory=list)           # sorted spans first .. stop-1 that ran
    mended: dict[Group, Failure] = field(default_factory=dict)  # failures of only the other profile
    cost: CampaignCost = field(default_factory=CampaignCost)  # tokens evaluated under both profiles

    def take(self, block: CampaignBlock) -> None:
        """Add the results of a block of conversations to the totals."""
        self.played += block.played
        self.refused += block.refused
        self.done = joined([*self.done, (block.first, block.stop)])
        self.cost = self.cost.plus(block.cost)
        for failures, found in ((self.failures, block.found), (self.mended, block.mended)):
            for number, finding in found:
                _count(failures, number, finding)


def _count(failures: dict[Group, Failure], number: int, finding: PropertyFailure) -> None:
    """Count another finding, of this conversation."""
    known = failures.get(finding.group)
    if known is None:
        failures[finding.group] = Failure(number, finding)
        return
    known.times += 1
    if number < known.first:
        known.first = number
        known.finding = finding
        known.small = None
        known.kept = None


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of the spans as sorted spans that neither overlap nor touch."""
    out: list[tuple[int, int]] = []
    for first, stop in sorted(spans):
        if out and first <= out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        elif first < stop:
            out.append((first, stop))
    return out


@with_rare_garbage_collection()
def work(job: CampaignJob) -> CampaignBlock:
    """Run the conversations of a job. Raise Unwritable if the slot files of the servers cannot be written."""
    judges: dict[str, Judge] = {}
    every: Found = []
    mended: Found = []
    refused = 0
    cost = CampaignCost()
    plan = job.plan
    for i in range(job.first, job.stop):
        number = plan.seed * SPREAD + i
        try:
            case = draw_conversation(number, plan.engine, plan.models)
            if plan.against:
                two = compared(case, plan.profile, plan.against, plan.properties, judges, plan.mode)
                found, cost = two.new, cost.plus(two.cost)
                mended += ((number, one) for one in two.mended)
            else:
                found = findings(case, plan.profile, plan.properties, judges, mode=plan.mode)
            every += ((number, one) for one in found)
        except Unwritable:
            raise
        except Exception as error:      # a conversation that crashes the simulator does not end a campaign
            what = failed(error)
            if what is None:
                refused += 1
            else:
                every.append((number, what))
    return CampaignBlock(every, job.stop - job.first, refused, job.first, job.stop, mended, cost)


def lost(job: CampaignJob, how: str) -> CampaignBlock:
    """Return the block of a job that two processes did not survive. ``how``: how the second process ended."""
    seed = job.plan.seed
    numbers = {"first": job.first, "last": job.stop - 1, "seed": seed, "how": how}
    died = PropertyFailure(SIMULATOR, 0, FaultKind.DIED, numbers)
    return CampaignBlock([(seed * SPREAD + job.first, died)], 0, 0, job.first, job.stop)


def blocks(plan: CampaignPlan, stop: int, start: int = 0, done: Iterable[Span] = ()) -> Iterator[CampaignJob]:
    """Yield the jobs of the conversations start .. stop-1 without the sorted spans ``done``."""
    for first, behind in gaps(done, start, stop):
        for at in range(first, behind, BLOCK):
            yield CampaignJob(plan, at, min(at + BLOCK, behind))


def gaps(done: Iterable[tuple[int, int]], start: int, stop: int) -> list[tuple[int, int]]:
    """Return the spans of start .. stop-1 that the sorted spans ``done`` do not cover."""
    out = []
    for first, behind in [*done, (stop, stop)]:
        if start < min(first, stop):
            out.append((start, min(first, stop)))
        start = max(start, behind)
    return out


def block_count(spans: Iterable[tuple[int, int]]) -> int:
    """Return the number of jobs for the conversations of these spans."""
    return sum(-(-(stop - first) // BLOCK) for first, stop in spans)


def run(todo: Iterable[CampaignJob], jobs: int) -> Iterator[CampaignBlock]:
    """Yield the blocks in the order of the jobs, run in ``jobs`` processes."""
    todo = list(todo)
    for job, block in zip(todo, spread(work, todo, jobs), strict=True):
        yield lost(job, block.how) if isinstance(block, KilledItem) else block


def findings_in(case: DrawnConversation, plan: CampaignPlan, judges: dict[str, Judge]) -> list[PropertyFailure]:
    """Return the findings of a plan in a conversation. Raise BadInput if the engine does not support it."""
    if plan.against:
        return compared(case, plan.profile, plan.against, plan.properties, judges, plan.mode).new
    return shown(case, plan.profile, plan.properties, judges, plan.mode)


def shrunk(failure: Failure, plan: CampaignPlan, tries: int = TRIES) -> Failure:
    """Return the failure with the smallest case of its group."""
    judges: dict[str, Judge] = {}
    group = failure.finding.group
    wanted = plan._replace(properties=(group[0],)) if group[0] in ALL else plan

    def found(case: DrawnConversation) -> list[PropertyFailure]:
        try:
            return [one for one in findings_in(case, wanted, judges) if one.group == group]
        except BadInput:                # a case that cannot run
            return []

    case = drawn(failure, plan)
    if case is None:
        return failure
    small = shrink(case, lambda case: bool(found(case)), tries, case.seed)
    again = found(small)
    return Failure(failure.first, again[0] if again else failure.finding, failure.times, small)


def drawn(failure: Failure, plan: CampaignPlan) -> DrawnConversation | None:
    """Draw the first conversation of the failure. Return None if it cannot be drawn or is not known."""
    if failure.finding.kind == FaultKind.DIED:
        return None
    try:
        case = draw_conversation(failure.first, plan.engine, plan.models)
        case.scenario(plan.profile)
    except Exception:
        return None
    return case
