"""Tests of running, counting and judging a workload."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import Crash
from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.memory_use import MIB
from cachesim.judging.judged_run import run_judged
from cachesim.judging.lower_bound import EvaluationBound
from cachesim.tools.workload import run_cell as module
from cachesim.tools.workload.block_tokens import SessionRequest, played
from cachesim.tools.workload.cell_jobs import CellJob, line_of, summed, totals_of
from cachesim.tools.workload.run_cell import BILLED, COUNTED, JUDGED, CountingObserver, causes, cell, scenario_of
from cachesim.tools.workload.simulated_servers import served
from cachesim.tools.workload.workload_files import read_session

DATA = Path(__file__).parents[3] / "workloads/data"
AGENTS, CHAT = str(DATA / "agents.json"), str(DATA / "chat.jsonl")
PROFILES = ("llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_prompt_token_is_evaluated_or_reused(profile):
    found = line_of(CellJob((AGENTS,), profile, "qwen3-next", {}, 16, BILLED, True))
    assert found["prompt"] == found["evaluated"] + found["kept"] + found["restored"] + found["loaded"]
    assert found["least"] <= found["evaluated"] <= found["prompt"]
    assert (found["answered"], found["wrong"], found["undecided"]) == (9, 0, 0)
    assert sum(found["lost"].values()) <= found["evaluated"]


def test_what_is_judged_is_what_was_counted():
    lines = [line_of(CellJob((AGENTS,), PROFILES[0], "GA", {}, 16, how)) for how in (COUNTED, JUDGED)]
    assert lines[0]["evaluated"] == lines[1]["evaluated"]
    assert (lines[0]["wrong"], lines[1]["wrong"], lines[1]["lost"]) == (None, 0, None)


def test_fewer_tokens_than_the_bound_are_a_fault_of_ours(monkeypatch):
    monkeypatch.setattr(module, "lower_bound", lambda requests: EvaluationBound((), 10**6))
    requests = played(read_session(Path(CHAT)))
    with pytest.raises(Crash, match="fewer than the lower bound 1000000"):
        cell(requests, served(PROFILES[0], "GA", {}, 300))


def test_a_judged_run_that_evaluates_other_tokens_is_a_fault_of_ours(monkeypatch):
    def otherwise(*args, table, **more):
        return run_judged(*args, table=rules_of("llama_cpp@pr24143-on-b10587"), **more)

    requests, server = played(read_session(Path(AGENTS)), 16), served(PROFILES[0], "GA", {}, 9000, 16)
    assert cell(requests, server, JUDGED).wrong == 0
    monkeypatch.setattr(module, "run_judged", otherwise)
    with pytest.raises(Crash, match="the judged run and the counted run evaluate different numbers of tokens"):
        cell(requests, server, JUDGED)


def test_megabytes_are_those_of_the_real_model():
    hybrid = line_of(CellJob((AGENTS,), PROFILES[0], "qwen3-next", {}, 64))
    assert hybrid["peak_checkpoints"] == pytest.approx(75.375 * round(hybrid["peak_checkpoints"] / 75.375), abs=0.1)
    assert hybrid["peak_checkpoints"] > 75
    assert line_of(CellJob((AGENTS,), PROFILES[0], "llama-3", {}, 64))["peak_checkpoints"] == 0


def test_sums_know_what_every_line_knows():
    lines = [
        line_of(CellJob((file,), PROFILES[0], "GA", {}, 16, how)) for file, how in ((AGENTS, BILLED), (CHAT, COUNTED))
    ]
    found = summed(lines)
    assert found["evaluated"] == lines[0]["evaluated"] + lines[1]["evaluated"]
    assert (found["wrong"], found["lost"], found["sessions"]) == (None, None, 2)
    assert len(totals_of([*lines, {**lines[0], "profile": "other"}])) == 2


def test_an_observer_adds_right_answers_and_keeps_the_largest_sizes():
    """The third request is refused and the fourth ends the server: neither has tokens."""
    sizes = iter([(0.26, 1), (2.04, 0), (1, 7.77), (0, 0)])
    stored = (SimpleNamespace(checkpoints=first * MIB, cache=second * MIB) for first, second in sizes)
    observer = CountingObserver()
    observer.started(SimpleNamespace(sizes=SimpleNamespace(stored_bytes=lambda: next(stored))))
    prompts = [(1, 2, 3, 4), (1, 2, 3, 4, 9, 5, 6), (7, 8), (7,)]
    answers = [
        Answer(0, done=True, tokens=[9], prompt_n=4, predicted_n=1, deciding="R.1"),
        Answer(0, done=True, tokens=[8, 8], prompt_n=2, predicted_n=2, deciding="R.2",
               reused={"slot": 3, "checkpoint": 1, "entry": 1}),
        Answer(0, done=True, status=400, prompt_n=2, predicted_n=1, reused={"slot": 1}),
        Answer(0, done=True, died=True, prompt_n=1, predicted_n=1, reused={"slot": 1}),
    ]  # fmt: skip
    for number in (1, 0, 2, 3):                      # answered in another order than sent
        observer.begins(number, SimpleNamespace(together=False))
    for number in (1, 0, 2, 3):
        observer.answered(number, Request(prompts[number]), answers[number])
    found = observer.close()
    assert (found.requests, found.answered, found.refused, found.died) == (4, 2, 1, 1)
    assert (found.prompt, found.generated, found.evaluated) == (11, 3, 6)
    assert (found.kept, found.restored, found.loaded) == (3, 1, 1)
    assert (found.peak_checkpoints, found.peak_cache) == (2.0, 7.8)
    assert (found.each, found.deciding[:2]) == ([4, 2, 0, 0], ["R.1", "R.2"])


def test_causes_are_summed_and_the_greatest_comes_first():
    def request(*charges):
        made = [SimpleNamespace(event=event, tokens=tokens) for event, tokens in charges]
        return SimpleNamespace(ledger=SimpleNamespace(charges=made))

    run = SimpleNamespace(requests=[request(("erased", 2), ("evicted", 4)), request(), request(("erased", 3))])
    assert list(causes(run).items()) == [("erased", 5), ("evicted", 4)] and causes(SimpleNamespace(requests=[])) == {}


@pytest.mark.parametrize(("profile", "starts"), [("llama_cpp@b11549", (3,)), ("vllm@0.33.0", ())])
def test_a_scenario_has_the_requests_with_their_answers_and_marks(profile, starts):
    requests = [SessionRequest((1, 2, 3, 4), (5,), (3,), False), SessionRequest((1, 2), (7, 8), (), True)]
    found = scenario_of(requests, served(profile, "A", {}, 9))
    asked = [(step.request.prompt, step.request.n_predict, step.request.forced, step.together) for step in found.steps]
    assert asked == [((1, 2, 3, 4), 1, (5,), False), ((1, 2), 2, (7, 8), True)]
    assert tuple(found.steps[0].request.user_starts) == starts and not found.steps[1].request.user_starts
    assert (found.engine, found.model, found.profiles) == (profile.partition("@")[0], "A", (profile,))
