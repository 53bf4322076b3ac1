"""A copy of a server goes on as the server itself, and changes nothing of it; so does a server without a model."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES, present_name
from cachesim.events import Gained, Log, Lost
from cachesim.scenarios.runner import AnswerCollector, SilentObserver, play
from cachesim.strategies import rule_sets, workloads
from cachesim.tools.search.drawn_conversation import draw_conversation

EXAMPLES = pytest.mark.parametrize("examples", [5, pytest.param(20, marks=pytest.mark.long)])


class Forking(SilentObserver):
    """Sends every request that is served alone to a copy that was made before it. ``compared``: (number, answer and
    events of the copy, those of the server)."""

    def __init__(self):
        self.copy, self.compared = None, []

    def started(self, server):
        self.server, self.copy = server, None

    def begins(self, number, step):
        self.copy = self.server.fork() if self.server.idle and not self.server.dead else None
        self.first = len(self.server.log.events)

    def answered(self, number, request, answer):
        if self.copy is None or not self.server.idle:
            return
        copy, self.copy = self.copy, None
        again = copy.complete(request)
        self.compared.append((number, told(copy, again, self.first), told(self.server, answer, self.first)))


def told(server, answer, first):
    """Return what a client and a reader of the log see of a request."""
    return (answer.tokens, answer.cache_n, answer.prompt_n, answer.status, answer.error, answer.deciding,
            [str(event) for event in server.log.events[first:]])  # fmt: skip


def answers(case, mode):
    """Return the answers of a case, and the restore points that it reports."""
    collected = AnswerCollector()
    log = play(case.scenario, case.profile, mode, collected)
    points = [str(event) for event in log.events if isinstance(event, Gained | Lost)]
    return [(number, answer.tokens, answer.cache_n, answer.prompt_n, answer.status, answer.error, answer.deciding)
            for number, (_, answer) in collected.found.items()], points  # fmt: skip


def check_workloads(engine, examples, check):
    """Check drawn cases on a server of an engine."""
    @settings(max_examples=examples)
    @given(workloads(engine, rules=ENGINES[engine].rules(present_name(engine))))
    def holds(case):
        check(case)

    holds()


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_goes_on_as_its_server(engine, examples):
    def check(case):
        forking = Forking()
        with_copies = play(case.scenario, case.profile, "none", forking)
        for _, copied, own in forking.compared:
            assert copied == own
        alone = play(case.scenario, case.profile, "none")
        assert [str(event) for event in with_copies.events] == [str(event) for event in alone.events]

    check_workloads(engine, examples, check)


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_without_a_model_decides_the_same(engine, examples):
    def check(case):
        without, with_model = (answers(case, mode) for mode in ("none", "provenance"))
        assert without == with_model

    check_workloads(engine, examples, check)


ROUNDS = (1, 3, 7)     # iterations of the server after which it is copied
MOST = 2_000           # iterations of a server


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_a_copy_that_is_made_during_work_goes_on_as_its_server(engine, examples):
    """Under every version of the main branch, with up to three requests at once."""
    @settings(max_examples=examples)
    @given(workloads(engine, rules=rule_sets(engine)))
    def holds(case):
        server = ENGINES[engine].start(case.rules, case.server.model, case.server.options, "none", Log())
        with suppress(BadInput):            # an action, or a request that this version does not support
            for step in case.scenario.steps[:3]:
                server.submit(step.request)
        copies = []
        for number in range(MOST):
            if number in ROUNDS:
                copies.append(server.fork())
            if server.working:
                server.iterate()
        for copy in copies:
            for _ in range(MOST):
                if copy.working:
                    copy.iterate()
            assert [str(event) for event in copy.log.events] == [str(event) for event in server.log.events]

    holds()


@pytest.mark.parametrize(("engine", "seed"), [("ik_llama", 71555), ("mlx_lm", 3)])
def test_decisions_of_a_memory_and_of_inner_tables_are_logged_by_the_copy(engine, seed):
    """A rule of the memory, or of a table inside the server's, once logged into the server that had been copied."""
    profile, forking = present_name(engine), Forking()
    play(draw_conversation(seed, engine).scenario(profile), profile, "none", forking)
    assert forking.compared and all(copied == own for _, copied, own in forking.compared)
