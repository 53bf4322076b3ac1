"""The tokens in the steps of a scheduler are those that the server evaluates, and every waiting request has a limit."""

import json
from collections import Counter

import pytest

from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.registry import engine_of, present_name, profiles
from cachesim.events.scheduling import StepScheduled
from cachesim.judging.schedule_data import ScheduleRecorder
from cachesim.replay.recorded_trace import read_trace
from cachesim.scenarios.runner import AnswerCollector, Observers, play
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.replay.verdicts import DATA

FEW, MANY = range(12), range(12, 60)        # seeds of the default suite, and of `make long`


def scheduled(log):
    return [event for event in log.events if isinstance(event, StepScheduled)]


@pytest.mark.parametrize("seeds", [FEW, pytest.param(MANY, marks=pytest.mark.long)], ids=["few", "many"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_tokens_of_the_steps_are_the_evaluated_ones(engine, seeds):
    profile, compared = present_name(engine), 0
    for seed in seeds:
        answers = AnswerCollector()
        try:
            scenario = draw_conversation(seed, engine).scenario(profile)
            log = play(scenario, profile, "none", Observers(answers, ScheduleRecorder()))
        except BadInput:
            continue
        steps = scheduled(log)
        runs = [run for step in steps for run in step.runs]
        preempted = {one.request for step in steps for one in step.preemptions}
        prompts = Counter()
        for run in runs:
            prompts[run.request] += run.prompt
        if not any(answer.died for _, answer in answers.found.values()):
            assert sum(run.prompt + run.answer + run.drafts for run in runs) == log.spent, (seed, scenario)
        for number, (_, answer) in answers.found.items():
            if answer.done and answer.status == 200 and not (answer.cancelled or answer.died or number in preempted):
                assert prompts[number] == answer.prompt_n, (seed, number, scenario)
                compared += 1
    assert compared


@pytest.mark.parametrize("file", sorted((DATA / "vllm").glob("*.json")) + sorted((DATA / "sglang").glob("*.json")),
                         ids=lambda file: file.stem)  # fmt: skip
def test_the_steps_are_those_of_the_released_scheduler(file):
    data = json.loads(file.read_text())
    trace = read_trace(file, profiles())
    engine = engine_of(trace.profile)
    server = engine.start(trace.profile, trace.model, trace.flags, "none")
    assert server.schedule.record()
    perform = engine.recorded.classes().play(server, data)
    theirs, preempted = [], []
    for step in data["steps"]:
        try:
            perform(step)
        except ProcessAborted:
            break
        is_range = step["op"] in ("prefill", "decode")          # SGLang's have the end, vLLM's the number of tokens
        theirs += [(one[0], one[1], one[2] - one[1] * is_range) for one in step.get("run", ())]
        preempted += step.get("retracted", [])
        if step["op"] == "schedule":                            # a reset of the cache preempts, too
            preempted += [event[1] for event in step.get("ev", ()) if event[0] == "preempt"]
    steps = scheduled(server.log)
    assert [(run.request, run.start, run.prompt + run.answer + run.drafts)
            for step in steps for run in step.runs][: len(theirs)] == theirs  # fmt: skip
    assert [one.request for step in steps for one in step.preemptions] == preempted
