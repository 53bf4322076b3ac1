"""Run, count and judgement of a workload on a server. The result is a ``Cell``: the numbers of a line."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.judging.evidence import predicted
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.lower_bound import EvaluatedRequest, evaluated_request, lower_bound
from cachesim.judging.recompute_reasons import reused
from cachesim.scenarios.notation.tree import LineRequest
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import Scenario, Step
from cachesim.tools.workload.block_tokens import SessionRequest
from cachesim.tools.workload.simulated_servers import SimulatedServer

COUNTED, JUDGED, BILLED = "counted", "judged", "billed"
"""Levels of detail: tokens and bytes; also the answers; also the cause of every re-evaluated token."""
MIB = 1 << 20
NOT_TOLD = ("each", "deciding", "waiting", "waiting_tokens")


@dataclass(slots=True)
class Cell:
    """Numbers of a workload under a rule set. Tokens are simulated tokens: scaled if the workload is scaled."""

    requests: int = 0
    answered: int = 0
    refused: int = 0
    died: int = 0
    prompt: int = 0                                         # prompt tokens
    evaluated: int = 0                                      # of these: evaluated
    kept: int = 0                                           # kept in a slot
    restored: int = 0                                       # restored from a checkpoint
    loaded: int = 0                                         # loaded from the prompt cache
    generated: int = 0
    least: int = 0                                          # lower bound for the answered requests
    peak_checkpoints: float = 0.0                           # MiB of the named model, maximum after any answer
    peak_cache: float = 0.0                                 # MiB, likewise
    wrong: int | None = None                                # answers, None = not judged
    undecided: int | None = None                            # answers, None = not judged
    predicted: int = 0                                      # wrong answers by an outcome never seen on a real server
    lost: dict[str, int] | None = None                      # re-evaluated tokens by cause, None = not requested
    each: list[int] = field(default_factory=list)           # evaluated tokens of each request
    deciding: list[str] = field(default_factory=list)       # deciding rule of each request
    waiting: int = 0                                        # requests that waited for a slot
    waiting_tokens: int = 0                                 # tokens of the answers that they waited for, summed

    def data(self) -> dict[str, Any]:
        """Return the numbers as plain data, without those of single requests and of waiting."""
        return {name: value for name, value in asdict(self).items() if name not in NOT_TOLD}


def scenario_of(requests: Sequence[SessionRequest], served: SimulatedServer) -> Scenario:
    """Return the workload as a scenario without words, with starts of user messages if the engine supports them."""
    marks = "user_starts" in served.engine.manual.takes
    asked = (Request(one.prompt, n_predict=len(one.answer), forced=one.answer, user_starts=one.starts if marks else ())
             for one in requests)  # fmt: skip
    steps = (Step(what, LineRequest((), together=one.together)) for what, one in zip(asked, requests, strict=True))
    return Scenario(
        id="workload", title="", source=(), why="", engine=served.engine.name, model=served.model,
        profiles=(served.profile,), server=served.flags, words={}, steps=tuple(steps),
    )  # fmt: skip


def cell(requests: Sequence[SessionRequest], served: SimulatedServer, how: str = COUNTED) -> Cell:
    """Run a workload and return its numbers; ``how`` is the level of detail. Raise BadInput for invalid options. Raise
    Crash if fewer tokens are evaluated than the lower bound although every answer is correct."""
    scenario, counter = scenario_of(requests, served), CountingObserver()
    play(scenario, served.profile, "none", counter, served.rules)
    found = counter.close()
    if how != COUNTED:
        _judge(found, scenario, served, with_ledger=how == BILLED)
    if found.evaluated < found.least and not found.wrong:
        raise Crash(f"{found.evaluated} tokens evaluated, fewer than the lower bound {found.least}")
    return found


def _judge(found: Cell, scenario: Scenario, served: SimulatedServer, with_ledger: bool) -> None:
    run = run_judged(scenario, served.profile, "provenance", table=served.rules, with_ledger=with_ledger)
    if sum(_evaluated(one.answer) for one in run.requests) != found.evaluated and not run.unsettled:
        raise Crash("the judged run and the counted run evaluate different numbers of tokens")
    found.wrong = len([number for number in run.broken if number not in run.refused])
    found.undecided = len(run.unsettled)
    if found.wrong:
        found.predicted = len({one.request for one in predicted(run, served.rules) if one.what == "verdict"})
    if with_ledger:
        found.lost = causes(run)


def causes(run: Run) -> dict[str, int]:
    """Return the re-evaluated tokens by the event that removed the state, largest first."""
    out = Counter[str]()
    for one in run.requests:
        for charge in one.ledger.charges:
            out[charge.event] += charge.tokens
    return dict(out.most_common())


def _evaluated(answer: Answer) -> int:
    return answer.prompt_n if answer.status == 200 and answer.done and not answer.died else 0


class CountingObserver(SilentObserver):
    """Observer that counts tokens of answers and records the largest number of stored bytes."""

    server: Server

    def __init__(self) -> None:
        self.found = Cell()
        self._answers: dict[int, tuple[EvaluatedRequest, int, str]] = {}        # by step number
        self._together: dict[int, bool] = {}
        self._work = 0                                      # evaluated and generated tokens of the answers so far
        self._work_before: dict[int, int] = {}              # the same when a request was sent, by step number
        self._work_of_slot: dict[int, int] = {}             # the same after the last answer of a slot

    def started(self, server: Server) -> None:
        """Record the started server."""
        self.server = server

    def begins(self, number: int, step: Step) -> None:
        """Record whether the next step overlaps the previous step, and what was answered before it."""
        self._together[number] = step.together
        self._work_before[number] = self._work

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Count a request that was answered, refused, or neither."""
        found, right = self.found, answer.status == 200 and answer.done and not answer.died
        found.requests += 1
        found.answered += right
        found.died += answer.died
        found.refused += answer.status != 200 and not answer.died
        if right:
            found.prompt += len(request.prompt)
            found.generated += answer.predicted_n
            found.evaluated += answer.prompt_n
            came = reused(answer)
            found.kept, found.restored = found.kept + came.kept, found.restored + came.restored
            found.loaded += came.loaded
        self._count_waiting(number, answer)
        told = evaluated_request(request, answer, self._together[number])
        self._answers[number] = told, _evaluated(answer), answer.deciding
        stored = self.server.sizes.stored_bytes()
        found.peak_checkpoints = max(found.peak_checkpoints, round(stored.checkpoints / MIB, 1))
        found.peak_cache = max(found.peak_cache, round(stored.cache / MIB, 1))

    def _count_waiting(self, number: int, answer: Answer) -> None:
        """Count a request that waited: another one was answered in its slot after it was sent. It waited for all
        answers up to that one."""
        begun = self._work_of_slot.get(answer.id_slot, 0)
        if answer.id_slot >= 0 and begun > self._work_before[number]:
            self.found.waiting += 1
            self.found.waiting_tokens += begun - self._work_before[number]
        self._work += answer.prompt_n + answer.predicted_n
        self._work_of_slot[answer.id_slot] = self._work

    def close(self) -> Cell:
        """Compute the lower bound and the lists by request, after all requests were answered."""
        found, ordered = self.found, [self._answers[number] for number in sorted(self._answers)]
        found.least = lower_bound(one for one, _, _ in ordered).total
        found.each, found.deciding = [n for _, n, _ in ordered], [rule for _, _, rule in ordered]
        return found
