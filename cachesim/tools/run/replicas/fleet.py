"""Requests on several servers of one kind. Only the caches are simulated: a replica runs its requests one after the
other, in the order in which they were sent to it.

A request is in flight until its recorded answer. If no time was recorded, it is in flight until its replica has
evaluated and generated its tokens at a given speed, after those before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.runner import AnswerCollector, ScenarioStage
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.replicas.routes import ROUTES, Arrival, ReplicaStats, Route
from cachesim.tools.run.work_arguments import SPEED

REPORT_INTERVAL = 0.1           # seconds between the statistics of the replicas


class RequestTimes(NamedTuple):
    """When a request was sent and answered [s], the number of its conversation. ``end`` = ``start``: no recorded time,
    the speed decides."""

    start: float
    end: float
    session: int


class FleetJob(NamedTuple):
    """Requests of a scenario on ``number`` servers. ``route``: name of the policy; ``times``: of each request;
    ``speed``: tokens in a second; ``scale``: tokens that run as one; ``table``: rule set, None = that of the
    profile."""

    scenario: Scenario
    profile: str
    number: int
    route: str
    times: Sequence[RequestTimes]
    speed: int = SPEED
    scale: int = 1
    table: RuleSet | None = None


@dataclass(slots=True)
class ReplicaLoad:
    """What a replica did, in tokens of the requests as they run. ``evaluated``: its load."""

    requests: int = 0
    answered: int = 0
    prompt: int = 0
    evaluated: int = 0

    def add(self, prompt: int, answer: Answer) -> None:
        """Count a request."""
        self.requests += 1
        if answer.status == 200 and not answer.died:
            self.answered += 1
            self.prompt += prompt
            self.evaluated += answer.prompt_n


class RoutedRequest(NamedTuple):
    """The replica of a request, and the prompt tokens that it evaluated; -1 = it was not answered."""

    replica: int
    evaluated: int


class FleetResult(NamedTuple):
    """What the replicas did, and where each request ran."""

    replicas: Sequence[ReplicaLoad]
    requests: Sequence[RoutedRequest]

    @property
    def evaluated(self) -> int:
        """Evaluated tokens of all replicas."""
        return sum(replica.evaluated for replica in self.replicas)

    @property
    def answered(self) -> int:
        """Answered requests of all replicas."""
        return sum(replica.answered for replica in self.replicas)


def run_fleet(job: FleetJob) -> FleetResult:
    """Run the requests and return what each replica did. Raise BadInput for a scenario with other steps."""
    if any(step.action is not None for step in job.scenario.steps):
        raise BadInput("several replicas run requests only, not the other steps of a scenario")
    watchers = [AnswerCollector() for _ in range(job.number)]
    stages = [ScenarioStage(job.scenario, job.profile, "none", Path("."), watcher, job.table or job.profile)
              for watcher in watchers]  # fmt: skip
    front_end = _FrontEnd(ROUTES[job.route](job.number), job)
    loads = [ReplicaLoad() for _ in stages]
    routed = []
    for number, (step, times) in enumerate(zip(job.scenario.steps, job.times, strict=True)):
        replica = front_end.send(Arrival(step.request.prompt, times.session), times.start)
        stages[replica].send(number, [step])
        _, answer = watchers[replica].found[number]
        loads[replica].add(len(step.request.prompt), answer)
        front_end.answer(replica, times, answer)
        is_right = answer.status == 200 and not answer.died
        routed.append(RoutedRequest(replica, answer.prompt_n if is_right else -1))
    return FleetResult(loads, routed)


class _FrontEnd:
    """Front end with the time of each answer. ``busy``: when each replica has done what was sent to it [s]."""

    def __init__(self, route: Route, job: FleetJob) -> None:
        self.route = route
        self.job = job
        self.busy = [0.0] * job.number
        self.ends: list[tuple[float, int]] = []
        self.reported_at = float("-inf")

    def send(self, arrival: Arrival, now: float) -> int:
        """Return the replica of a request that arrives now."""
        while self.ends and self.ends[0][0] <= now:
            self.route.finished(heappop(self.ends)[1])
        if now - self.reported_at >= REPORT_INTERVAL:
            self.reported_at = now
            self.route.report([ReplicaStats(waiting=0, running=n) for n in self.route.inflight])
        return self.route.send(arrival)

    def answer(self, replica: int, times: RequestTimes, answer: Answer) -> None:
        """Note when a request will be answered."""
        end = times.end
        if end <= times.start:
            tokens = (answer.prompt_n + answer.predicted_n) * self.job.scale
            end = max(times.start, self.busy[replica]) + tokens / self.job.speed
            self.busy[replica] = end
        heappush(self.ends, (end, replica))


def one_server(profile: str, number: int, given: Mapping[str, Option]) -> dict[str, Option]:
    """Return the options of one server with the memory of all replicas: those that set its sizes, as far as they are
    given or have a default, multiplied. ``given``: options of a replica."""
    forms = engine_of(profile).capacity()
    options = in_force(given, profile)
    filled = {size.option for size in forms.sizes if size.filled} if forms else set()
    out = dict(given)
    for name in forms.shared if forms else ():
        value = options[name]
        if isinstance(value, int) and value > 0 and (name in given or name not in filled):
            out[name] = value * number
    return out
