"""Tests of running, counting and judging a workload."""

from pathlib import Path

import pytest

from cachesim.tools.workload.block_tokens import SessionRequest
from cachesim.tools.workload.cell_jobs import CellJob, line_of, summed, totals_of
from cachesim.tools.workload.run_cell import BILLED, COUNTED, JUDGED, cell, scenario_of
from cachesim.tools.workload.simulated_servers import served

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
    assert [*found["lost"].values()] == sorted(found["lost"].values(), reverse=True)


def test_what_is_judged_is_what_was_counted():
    lines = [line_of(CellJob((AGENTS,), PROFILES[0], "GA", {}, 16, how)) for how in (COUNTED, JUDGED)]
    assert lines[0]["evaluated"] == lines[1]["evaluated"]
    assert (lines[0]["wrong"], lines[1]["wrong"], lines[1]["lost"]) == (None, 0, None)


def test_a_refused_request_has_no_tokens():
    requests = [SessionRequest(tuple(range(40)), (5,), (), False), SessionRequest(tuple(range(600)), (5, 6), (), False),
                SessionRequest((*range(40), 5, 99), (7, 8), (), False)]  # fmt: skip
    found = cell(requests, served(PROFILES[0], "A", {"ctx_size": 256, "parallel": 1}, 700), JUDGED)
    assert (found.requests, found.answered, found.refused, found.died, found.wrong) == (3, 2, 1, 0, 0)
    assert (found.prompt, found.generated, found.evaluated, found.kept) == (82, 3, 42, 40)
    assert found.each == [40, 0, 2] and len(found.deciding) == 3


def test_a_request_to_a_server_that_died_is_neither_answered_nor_refused():
    """The context shift of the second request ends the process; its tokens do not count."""
    asked = [SessionRequest(tuple(range(1, 1 + n)), tuple(range(900, 900 + answer)), (), False)
             for n, answer in ((10, 1), (250, 9), (30, 1))]  # fmt: skip
    flags = {"ctx_size": 256, "parallel": 1, "context_shift": True}
    found = cell(asked, served("llama_cpp@b10587", "lfm2swa", flags, 700))
    assert (found.requests, found.answered, found.refused, found.died) == (3, 1, 0, 2)
    assert (found.prompt, found.evaluated, found.generated, found.each) == (10, 10, 1, [10, 0, 0])


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


@pytest.mark.parametrize(("profile", "starts"), [("llama_cpp@b11549", (3,)), ("vllm@0.33.0", ())])
def test_a_scenario_has_the_requests_with_their_answers_and_marks(profile, starts):
    requests = [SessionRequest((1, 2, 3, 4), (5,), (3,), False), SessionRequest((1, 2), (7, 8), (), True)]
    found = scenario_of(requests, served(profile, "A", {}, 9))
    asked = [(step.request.prompt, step.request.n_predict, step.request.forced, step.together) for step in found.steps]
    assert asked == [((1, 2, 3, 4), 1, (5,), False), ((1, 2), 2, (7, 8), True)]
    assert tuple(found.steps[0].request.user_starts) == starts and not found.steps[1].request.user_starts
    assert (found.engine, found.model, found.profiles) == (profile.partition("@")[0], "A", (profile,))
