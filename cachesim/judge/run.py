"""A scenario under one profile, run and judged: what every report starts from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import EngineKit
from cachesim.events import Log
from cachesim.judge.blame import Ledger
from cachesim.judge.expect import Mismatch, compare_expected
from cachesim.judge.judge import Judge
from cachesim.judge.judgement import Judgement
from cachesim.judge.verdict import Verdict, worst
from cachesim.model import Model
from cachesim.oracle import ColdRun
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Scenario
from cachesim.tokens import Tokens


@dataclass(slots=True)
class Run:
    """A scenario under one profile. ``wrong`` lists where it is not as its file expects."""

    scenario: Scenario
    profile: str
    mode: str
    log: Log = field(default_factory=Log)
    requests: list[Judgement] = field(default_factory=list)
    wrong: list[Mismatch] = field(default_factory=list)

    @property
    def broken(self) -> list[int]:
        """Requests whose answer, or what it left behind, is not a cold run's."""
        return [i for i, one in enumerate(self.requests) if one.judged.equal_cold is False]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all requests."""
        return worst(v for one in self.requests for v in (one.judged.answer, one.judged.state))


class Colds:
    """Cold runs by token list, shared between runs of the same model. A prefix of a list that was run before needs no
    run of its own: provenance of a prefix does not depend on what follows."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.recent: list[tuple[Tokens, ColdRun]] = []

    def covering(self, tokens: Tokens) -> ColdRun:
        """A cold run that begins with these tokens."""
        for known, run in reversed(self.recent):
            if known[: len(tokens)] == tokens:
                return run
        run = self.judge.digests(tokens)
        self.recent = [*self.recent[-15:], (tokens, run)]
        return run


def run_judged(scenario: Scenario, profile: str, mode: str = "exact", judge: Judge | None = None) -> Run:
    """Run a scenario under a profile and judge every request. ``judge`` may be shared between runs of one model.
    Raises BadInput."""
    run = Run(scenario, profile, mode)
    watch = _Watch(run, judge)
    run.log = play(scenario, profile, mode, watch.before, watch.after)
    expected = scenario.expect.get(profile)
    if expected is not None:
        run.wrong = compare_expected(expected, run.requests, run.broken)
    return run


class _Watch:
    """What looks over the runner's shoulder."""

    def __init__(self, run: Run, judge: Judge | None) -> None:
        self.run, self.given = run, judge

    def before(self, kit: EngineKit, server: Any, log: Log) -> None:
        """The server has started."""
        model: Model | None = server.context.model
        self.judge = self.given or Judge(model)
        self.colds = Colds(self.judge)
        self.ledger = Ledger(
            look=lambda: kit.points(server), cold=self.colds.covering,
            believed=lambda slot: tuple(server.slots[slot].tokens),
        )
        log.listener = self.ledger.hear
        self._announce(0)

    def _announce(self, number: int) -> None:
        self.ledger.begin(number)
        if number < len(self.run.scenario.steps):
            request = self.run.scenario.steps[number].request
            self.colds.covering((*request.prompt, *(request.forced or ())))

    def after(self, kit: EngineKit, server: Any, request: Request, answer: Answer) -> None:
        """A request is answered."""
        slot = kit.live(server, answer.id_slot) if answer.status == 200 and not answer.died else None
        judged = self.judge.judge(request, answer, slot, kit.kept(server))
        if not kit.agrees(server, answer):
            judged.state = Verdict(False, "provenance", "the memory does not end where the slot's tokens end")
        prompt, n_past = request.prompt, answer.cache_n
        account = self.ledger.settle(prompt, n_past, wrong=judged.equal_cold is False)
        if answer.status != 200 or answer.died:
            account = account._replace(charges=(), best=n_past, held=n_past)
        else:
            self.ledger.evaluated.append(answer.slot_tokens)
        lengths = kit.checkpoints(server, answer.id_slot) if answer.id_slot >= 0 else []
        self.run.requests.append(Judgement(request, answer, judged, account, lengths))
        self._announce(answer.request + 1)
