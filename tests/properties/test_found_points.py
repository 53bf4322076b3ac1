"""A request finds the longest restore point that the server has reported, and none that it has not.

After every request of a drawn conversation copies of the server are asked: each gets the beginning of a known prompt
and two new tokens behind it. It must reuse as many tokens as the longest reported point among its own tokens has.
mlx-lm, vLLM and SGLang share their restore points among all requests; the slots of the others do not. mlx-lm cuts no
window and no state, so its models have attention alone. vLLM's chunks in CPU memory are not reported: a request may
find more there. SGLang loads few tokens from host memory back not at all (SG-HOST-LOAD-BACK.TEN): it has none here.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from cachesim.engines.registry import ENGINES, present_name
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.strategies import servers, workloads
from tests.unit.engines.restore_points import Reported

NEW = (9_000_001, 9_000_002)
DRAFTERS = {"mlx_lm": "draft_model", "vllm": "speculative_method", "sglang": "speculative_algorithm"}
"""Options of servers whose drafter drops a part of what a lookup finds, or whose caches end a token short."""
MODELS = {"mlx_lm": ("A", "AA")}
LATEST = 3             # earlier prompts from which copies are asked
EXAMPLES = pytest.mark.parametrize("examples", [5, pytest.param(15, marks=pytest.mark.long)])


class Questions(SilentObserver):
    """Asks copies of a server whenever it is idle. ``wrong``: questions with another answer than the points give, and
    points that the server does not have. ``may_find_more``: the server loads what it does not report."""

    def __init__(self, may_find_more=False):
        self.may_find_more = may_find_more
        self.asked, self.wrong, self.number = [], [], 0

    def started(self, server):
        self.server, self.reported = server, Reported()
        server.log.listener = self.reported

    def answered(self, number, request, answer):
        self.asked.append(request)
        if not self.server.idle or self.server.dead:
            return
        reported = {key for key in self.reported.points if key[0] != "slot"}
        if reported != set(self.server.inspection.kept()):
            self.wrong.append((number, reported, self.server.inspection.kept()))
        for known in self.asked[-LATEST:]:
            n = len(known.prompt)
            for kept in {n, n * 2 // 3, n // 3} - {0}:
                self.ask(number, known, kept)

    def ask(self, number, known, kept):
        """Ask a copy for the first tokens of a known prompt, and new ones."""
        tokens, points = dict(self.reported.tokens), dict(self.reported.points)
        lengths = {key: self.reported.lengths(key) for key in points if key[0] != "slot"}
        prompt = (*known.prompt[:kept], *NEW)
        copy = self.server.fork()
        answer = copy.complete(replace(known, prompt=prompt, n_predict=1, forced=(1,), cancel_at=None, drafts=(),
                                       draft_else=0, user_starts=(), messages=()))  # fmt: skip
        own = tuple(copy.inspection.prefix_of(answer.request).tokens[: len(prompt)])
        found = [n for key, usable in lengths.items() for n in usable if tuple(tokens[key][:n]) == own[:n]]
        longest = max(found, default=0) if known.cache_prompt else 0
        self.number += 1
        if answer.cache_n < longest or (answer.cache_n > longest and not self.may_find_more):
            self.wrong.append((number, len(prompt), longest, answer.cache_n))


@EXAMPLES
@pytest.mark.parametrize("engine", DRAFTERS)
def test_a_request_finds_what_is_reported(engine, examples):
    asked = 0
    rules = ENGINES[engine].rules(present_name(engine))
    server = servers(engine, models=MODELS.get(engine, ()))

    @settings(max_examples=examples)
    @given(workloads(engine, rules=rules, server=server))
    def holds(case):
        nonlocal asked
        assume(case.server.options.get(DRAFTERS[engine], "none") == "none")
        assume(not case.server.options.get("enable_hierarchical_cache"))
        questions = Questions(may_find_more=bool(case.server.options.get("num_cpu_chunks")))
        play(case.scenario, case.profile, "none", questions)
        asked += questions.number
        assert questions.wrong == []

    holds()
    assert asked > examples
