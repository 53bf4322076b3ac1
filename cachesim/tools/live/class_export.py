"""Exports of a scenario for the classes of a released package: a test, and an issue that contains it.

The test states what each request reuses under a rule set. It passes on a release that reuses as much, and fails on one
that does not. What a release computes is not tested: the classes run without a model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cachesim.base.errors import BadInput, counted
from cachesim.engines.base import Request
from cachesim.engines.contract import ClassCase, ClassRequest, ClassTest
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.reproduce_command import settings
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.server_settings import server_options
from cachesim.tools.live.llama_server.export.judged_loss import judged_loss

FILLER = 7                         # token of an answer that the scenario does not state
PLAIN = Request(prompt=())


def class_program(scenario: Scenario, profile: str, test: ClassTest) -> str:
    """Return the test of a scenario with the numbers of a rule set. Raise BadInput for a scenario that it cannot
    express, or with a wrong answer."""
    return test.write(_case(scenario, profile, _run(scenario, profile, test)))


def class_issue(scenario: Scenario, profile: str, test: ClassTest) -> str:
    """Return an issue about tokens that are lost under a rule set, with a test that fails there. Raise BadInput for a
    scenario without such a loss."""
    run = _run(scenario, profile, test)
    loss = judged_loss(run)
    if loss is None or loss.reference.rule:
        raise BadInput("no other rule set reuses more of this scenario: there is nothing to report",
                       hint="--to pytest")  # fmt: skip
    better = loss.reference.profile
    lines = [f"request {one.request} (from 0): {loss.text(one)}" for one in loss.reference.lost]
    flags = " ".join(settings(scenario.server))
    text = test.write(_case(scenario, better, _run(scenario, better, test)))
    return "\n".join([
        f"### {scenario.title}", "", f"{profile}, layers {scenario.model}, options: {flags or 'defaults'}", "",
        "#### Requests", "", *(f"{i}. `{step.text}`, {counted(len(step.request.prompt), 'prompt token')}"
                               for i, step in enumerate(scenario.steps)), "",
        "#### Reused tokens (simulated by cachesim)", "", *lines, "",
        f"#### Test: fails on {profile}, passes with the reuse of {better}", "",
        "```python", text.rstrip("\n"), "```", "",
    ])  # fmt: skip


def _run(scenario: Scenario, profile: str, test: ClassTest) -> Run:
    """Return the run with the options under which the test drives the classes."""
    server = {**scenario.server, **test.options}
    return run_judged(replace(scenario, server=server, expect={}, lives=()), profile, "provenance")


def _case(scenario: Scenario, profile: str, run: Run) -> ClassCase:
    if run.broken:
        raise BadInput(f"request {run.broken[0]} has a wrong answer under {profile}: its test needs a model")
    requests = []
    for step, one in zip(scenario.steps, run.requests, strict=True):
        if not one.answer.done or one.answer.status != 200:
            raise BadInput("a request without an answer cannot be exported for the released classes")
        _check_fields(step.request)
        if step.action is not None or step.after:
            raise BadInput("steps other than requests, and delays, cannot be exported for the released classes")
        n_answer = max(1, step.request.n_predict)
        answer = step.request.forced or (FILLER,) * n_answer
        requests.append(ClassRequest(tuple(step.request.prompt), tuple(answer[:n_answer]), one.answer.cache_n,
                                     step.together))  # fmt: skip
    server = server_options(run.scenario)
    options = {name: value for name, value in in_force(server, profile).items() if name in server}
    return ClassCase(scenario.id, scenario.title, profile, scenario.model, options, requests)


def _check_fields(request: Request) -> None:
    """Raise BadInput for a request with fields beside its prompt and answer."""
    plain: dict[str, Any] = {"prompt": request.prompt, "n_predict": request.n_predict, "forced": request.forced,
                             "user_starts": request.user_starts, "chat": request.chat}  # fmt: skip
    if replace(PLAIN, **plain) != request:
        raise BadInput("a request with other fields than prompt and answer cannot be exported for the released classes")


