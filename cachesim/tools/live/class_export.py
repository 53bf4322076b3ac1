"""Exports of a scenario for the classes of a released package: a test, and an issue that contains it.

The test states what each request reuses under a rule set. It passes on a release that reuses as much, and fails on one
that does not. The classes run without a model; where the program follows the contents of slots, it also fails if a
request reads what another text left there, or if the server ends.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cachesim.base.errors import BadInput, counted
from cachesim.engines.base import Request
from cachesim.engines.contract import ClassCase, ClassRequest, ClassTest
from cachesim.engines.registry import engine_named
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
    return test.write(_case(scenario, profile, _run(scenario, profile, test), test))


def class_issue(scenario: Scenario, profile: str, test: ClassTest) -> str:
    """Return an issue about a fault under a rule set, or about tokens that are lost there, with a test that fails
    there. Raise BadInput for a scenario with neither."""
    run = _run(scenario, profile, test)
    if run.broken:
        better, lines = _repaired(scenario, profile, test), [_fault(run, number) for number in run.broken]
    else:
        loss = judged_loss(run)
        if loss is None or loss.reference.rule:
            raise BadInput("no other rule set reuses more of this scenario: there is nothing to report",
                           hint="--to pytest")  # fmt: skip
        better = loss.reference.profile
        lines = [f"request {one.request} (from 0): {loss.text(one)}" for one in loss.reference.lost]
    flags = " ".join(settings(scenario.server))
    text = test.write(_case(scenario, better, _run(scenario, better, test), test))
    return "\n".join([
        f"### {scenario.title}", "", f"{profile}, layers {scenario.model}, options: {flags or 'defaults'}", "",
        "#### Requests", "", *(f"{i}. `{step.text}`, {counted(len(step.request.prompt), 'prompt token')}"
                               for i, step in enumerate(scenario.steps)), "",
        f"#### {'Answers' if run.broken else 'Reused tokens'} (simulated by cachesim)", "", *lines, "",
        f"#### Test: fails on {profile}, passes with {'' if run.broken else 'the reuse of '}{better}", "",
        "```python", text.rstrip("\n"), "```", "",
    ])  # fmt: skip


def _fault(run: Run, number: int) -> str:
    """Return a request without a correct answer in a sentence without its end."""
    if run.requests[number].answer.died:
        return f"request {number} (from 0): the server ends before it is answered"
    return f"request {number} (from 0): its answer differs from that of a server without a cache"


def _repaired(scenario: Scenario, profile: str, test: ClassTest) -> str:
    """Return a rule set that answers all requests of a scenario: one of the scenario, or one proposed for ``profile``.
    Raise BadInput without one."""
    proposed = [name for name, base in engine_named(scenario.engine).beside.items() if base == profile]
    if test.follows_contents:
        for name in dict.fromkeys((*proposed, *scenario.profiles)):
            if name != profile and not _run(scenario, name, test).broken:
                return name
    raise BadInput(f"a request has no correct answer under {profile}, and no rule set that a test can show repairs it")


def _run(scenario: Scenario, profile: str, test: ClassTest) -> Run:
    """Return the run with the options under which the test drives the classes."""
    server = {**scenario.server, **test.options}
    return run_judged(replace(scenario, server=server, expect={}, lives=()), profile, "provenance")


def _case(scenario: Scenario, profile: str, run: Run, test: ClassTest) -> ClassCase:
    if run.broken:
        raise BadInput(f"request {run.broken[0]} has no correct answer under {profile}: a test needs numbers without a "
                       "fault", hint="--to issue, or -p with a rule set that repairs it")  # fmt: skip
    requests = []
    for step, one in zip(scenario.steps, run.requests, strict=True):
        request = step.request
        if not (one.answer.done and one.answer.status == 200) and request.cancel_at is None:
            raise BadInput("a request without an answer cannot be exported for the released classes")
        if step.action is not None:
            raise BadInput("steps other than requests cannot be exported for the released classes")
        n_answer = max(1, request.n_predict)
        answer = request.forced or (FILLER,) * n_answer
        more: dict[str, Any] = {name: value for name, value in {
            "after": step.after, "cache_salt": request.extra.get("cache_salt", ""),
            "cancel_after": 0 if request.cancel_at is None else max(1, request.cancel_at - len(request.prompt) + 1),
        }.items() if value}  # fmt: skip
        _check_fields(request, {*more}, test)
        requests.append(ClassRequest(tuple(request.prompt), tuple(answer[:n_answer]), one.answer.cache_n,
                                     step.together, **more))  # fmt: skip
    server = server_options(run.scenario)
    options = {name: value for name, value in in_force(server, profile).items() if name in server}
    return ClassCase(scenario.id, scenario.title, profile, scenario.model, options, requests)


def _check_fields(request: Request, used: set[str], test: ClassTest) -> None:
    """Raise BadInput for a request with fields that a program does not send. ``used``: those beside its prompt and
    answer that are known."""
    plain: dict[str, Any] = {"prompt": request.prompt, "n_predict": request.n_predict, "forced": request.forced,
                             "user_starts": request.user_starts, "chat": request.chat,
                             "cancel_at": request.cancel_at}  # fmt: skip
    plain["extra"] = {name: value for name, value in request.extra.items() if name == "cache_salt"}
    if replace(PLAIN, **plain) != request or used - test.takes:
        raise BadInput("a request with other fields than "
                       f"{', '.join(['prompt', *sorted(test.takes)])} and answer cannot be exported for the released "
                       "classes")  # fmt: skip
