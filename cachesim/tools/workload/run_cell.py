"""A workload on one server: played, counted, judged. What comes out is a ``Cell``: numbers of one line."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, Sequence

from cachesim.base.errors import Crash
from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.judging.evidence import predicted
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.lower_bound import EvaluatedRequest, lower_bound, sent
from cachesim.judging.recompute_reasons import reused
from cachesim.scenarios.notation.tree import Asked
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import Scenario, Step
from cachesim.tools.workload.block_tokens import SessionRequest
from cachesim.tools.workload.simulated_servers import Served

COUNTED, JUDGED, BILLED = "counted", "judged", "billed"
"""How closely a workload is looked at: tokens and bytes; answers too; every lost token's cause too."""
MIB = 1 << 20


@dataclass(slots=True)
class Cell:
    """A workload under a rule set. Counts are tokens, scaled ones if it is scaled: of ``prompt`` tokens ``evaluated``
    were evaluated, ``kept`` stayed in a slot, ``restored`` came from a checkpoint, ``loaded`` from the prompt cache.
    ``least``: the lower bound for the requests that were answered; ``peak_checkpoints`` and ``peak_cache`` in MiB of
    the named model, the largest after any answer. ``wrong`` and ``undecided`` count answers (None = not judged);
    ``predicted`` of the wrong ones depend on an outcome which no real server was seen to have;
    ``lost`` the tokens that were evaluated again, by cause (None = not asked). ``each``: tokens evaluated for each
    request, ``deciding`` the rule that settled it."""

    requests: int = 0
    answered: int = 0
    refused: int = 0
    died: int = 0
    prompt: int = 0
    evaluated: int = 0
    kept: int = 0
    restored: int = 0
    loaded: int = 0
    generated: int = 0
    least: int = 0
    peak_checkpoints: float = 0.0
    peak_cache: float = 0.0
    wrong: int | None = None
    undecided: int | None = None
    predicted: int = 0
    lost: dict[str, int] | None = None
    each: list[int] = field(default_factory=list)
    deciding: list[str] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """The numbers as plain data, without those of each request."""
        return {name: value for name, value in asdict(self).items() if name not in ("each", "deciding")}


def scenario_of(requests: Sequence[SessionRequest], served: Served) -> Scenario:
    """The workload as a scenario, which has no words; starts of messages where the engine takes them."""
    marks = "user_starts" in served.engine.manual.takes
    asked = (Request(one.prompt, n_predict=len(one.answer), forced=one.answer, user_starts=one.starts if marks else ())
             for one in requests)  # fmt: skip
    steps = (Step(what, Asked((), together=one.together)) for what, one in zip(asked, requests, strict=True))
    return Scenario(
        id="workload", title="", source=(), why="", engine=served.engine.name, model=served.model,
        profiles=(served.profile,), server=served.flags, words={}, steps=tuple(steps),
    )  # fmt: skip


def cell(requests: Sequence[SessionRequest], served: Served, how: str = COUNTED) -> Cell:
    """Play a workload and count; ``how`` says how closely it is looked at. Raises BadInput, and Crash if it takes fewer
    tokens than any server must evaluate although every answer is right."""
    scenario, counter = scenario_of(requests, served), CountingObserver()
    play(scenario, served.profile, "none", counter, served.rules)
    found = counter.close()
    if how != COUNTED:
        _judge(found, scenario, served, bills=how == BILLED)
    if found.evaluated < found.least and not found.wrong:
        raise Crash(f"{found.evaluated} tokens evaluated, at least {found.least} must be")
    return found


def _judge(found: Cell, scenario: Scenario, served: Served, bills: bool) -> None:
    run = run_judged(scenario, served.profile, "provenance", table=served.rules, bills=bills)
    if sum(_evaluated(one.answer) for one in run.requests) != found.evaluated and not run.unsettled:
        raise Crash("the judged run evaluates other tokens than the counted one")
    found.wrong = len([number for number in run.broken if number not in run.refused])
    found.undecided = len(run.unsettled)
    if found.wrong:
        found.predicted = len({one.request for one in predicted(run, served.rules) if one.what == "verdict"})
    if bills:
        found.lost = causes(run)


def causes(run: Run) -> dict[str, int]:
    """Tokens evaluated again, by what happened to the state that had existed, the largest first."""
    out = Counter[str]()
    for one in run.requests:
        for charge in one.account.charges:
            out[charge.event] += charge.tokens
    return dict(out.most_common())


def _evaluated(answer: Answer) -> int:
    return answer.prompt_n if answer.status == 200 and not answer.died else 0


class CountingObserver(Silent):
    """Counts what is answered, and looks at the bytes that are kept."""

    server: Server

    def __init__(self) -> None:
        self.found = Cell()
        self._answers: dict[int, tuple[EvaluatedRequest, int, str]] = {}        # by the number of the step
        self._together: dict[int, bool] = {}

    def started(self, server: Server) -> None:
        """The server has started."""
        self.server = server

    def begins(self, number: int, step: Step) -> None:
        """The step comes next."""
        self._together[number] = step.together

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """A request is answered, or refused."""
        found, right = self.found, answer.status == 200 and not answer.died
        found.requests += 1
        found.answered += right
        found.died += answer.died
        found.refused += not right and not answer.died
        if right:
            found.prompt += len(request.prompt)
            found.generated += answer.predicted_n
            found.evaluated += answer.prompt_n
            came = reused(answer)
            found.kept, found.restored = found.kept + came.kept, found.restored + came.restored
            found.loaded += came.loaded
        told = sent(request, answer, self._together[number])
        self._answers[number] = told, _evaluated(answer), answer.deciding
        stored = self.server.stored_bytes()
        found.peak_checkpoints = max(found.peak_checkpoints, round(stored.checkpoints / MIB, 1))
        found.peak_cache = max(found.peak_cache, round(stored.cache / MIB, 1))

    def close(self) -> Cell:
        """Everything is answered: the bound, and the numbers of each request."""
        found, ordered = self.found, [self._answers[number] for number in sorted(self._answers)]
        found.least = lower_bound(one for one, _, _ in ordered).total
        found.each, found.deciding = [n for _, n, _ in ordered], [rule for _, _, rule in ordered]
        return found
