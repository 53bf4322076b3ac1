"""Tests of the jobs of a workload: limits, numbers in recorded tokens, and sums of lines."""

from __future__ import annotations

import pytest

from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.shared.model_sizes import sizes_of
from cachesim.tools.workload.cell_jobs import (
    CellJob,
    in_recorded_tokens,
    line,
    model_of,
    played_within,
    read_all,
    summed,
    totals_of,
)
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession
from cachesim.tools.workload.run_cell import Cell

REQUESTS = (RecordedRequest(0, 1, 9, 3, (1, 2)), RecordedRequest(2, 3, 14, 1, (1, 2, 3), agent="x"))
SESSION = WorkloadSession("s", "test", 4, REQUESTS)
"""27 tokens; 12 in three blocks, and 1 + 3 + 2 + 1 without a block."""


@pytest.fixture
def lift():
    """Return a function that sets limits, which end with the test."""
    yield limits.lift
    limits.lift({})


@pytest.mark.parametrize(("limit", "most"), [(limits.WORKLOAD_TOKENS, 27), (limits.NEW_TOKENS, 19)])
def test_tokens_are_bounded_before_they_are_made(lift, limit, most):
    lift({limit.name: most})
    assert [len(one.prompt) for one in played_within(SESSION, 1)] == [9, 14]
    lift({limit.name: most - 1})
    with pytest.raises(BadInput, match="workload s"):
        played_within(SESSION, 1)
    assert len(played_within(SESSION, 2)) == 2
    lift({limit.name: most // 2 - 1})
    with pytest.raises(BadInput, match="workload s"):
        played_within(SESSION, 2)


def test_a_prompt_may_be_shorter_than_its_blocks(lift):
    lift({limits.NEW_TOKENS.name: 9})
    played_within(WorkloadSession("s", "test", 4, (RecordedRequest(0, 1, 7, 1, (1, 2)),)), 1)


def test_sessions_of_a_server_have_equal_blocks(tmp_path):
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for file, size in zip(files, (64, 64, 4), strict=True):
        file.write_text(f'{{"block_size": {size}}}\n{{"blocks": [1, 2, 3]}}\n')
    assert read_all(files[:1]).name == "a" and read_all(files[:2]).name == "a+b"
    with pytest.raises(BadInput, match="4, 64"):
        read_all(files)


def test_a_word_names_a_real_model_or_layers():
    assert model_of("GGGA") == "GGGA" and model_of("qwen3-next") == sizes_of("qwen3-next")
    with pytest.raises(BadInput):
        model_of("no-such-model")


def test_numbers_of_tokens_are_multiplied_by_the_scale():
    found = Cell(requests=2, answered=2, prompt=10, evaluated=7, kept=1, restored=2, loaded=3, generated=4, least=5,
                 peak_checkpoints=1.5, peak_cache=2.5, wrong=1, predicted=1, lost={"erased": 3}, each=[1])  # fmt: skip
    assert in_recorded_tokens(found, 4) == {
        "requests": 2, "answered": 2, "refused": 0, "died": 0, "prompt": 40, "evaluated": 28, "kept": 4, "restored": 8,
        "loaded": 12, "generated": 16, "least": 20, "peak_checkpoints": 1.5, "peak_cache": 2.5, "wrong": 1,
        "undecided": None, "predicted": 1, "lost": {"erased": 12},
    }  # fmt: skip
    assert in_recorded_tokens(Cell(), 4)["lost"] is None


def test_tokens_with_unlimited_memory_are_those_of_the_recording():
    job = CellJob(("a.json",), "llama_cpp@b10587", "A", {"parallel": 1}, scale=2, bounds=True)
    found = line(SESSION, played_within(SESSION, 2), job)
    assert (found["evaluated"], found["unlimited"]) == (14, 14)


def test_a_line_describes_its_job_and_its_server():
    job = CellJob(("a.json",), "llama_cpp@b10587", "A", {"parallel": 1}, bounds=True)
    found = line(SESSION, played_within(SESSION, 1), job)
    names = ("session", "form", "sessions", "agents", "profile", "model", "layers", "given", "scale", "how")
    assert {name: found[name] for name in names} == {
        "session": "s", "form": "test", "sessions": 1, "agents": 1, "profile": "llama_cpp@b10587", "model": "A",
        "layers": "A", "given": {"parallel": 1}, "scale": 1, "how": "counted",
    }  # fmt: skip
    assert (found["requests"], found["prompt"], found["generated"], found["kept"]) == (2, 23, 4, 11)
    assert found["evaluated"] == 12 == found["unlimited"] and found["flags"]["parallel"] == 1
    assert line(SESSION, played_within(SESSION, 1), job._replace(bounds=False))["unlimited"] is None


LINE = {
    "session": "s", "profile": "p", "sessions": 1, "agents": 2, "prompt": 10, "evaluated": 5, "kept": 1, "restored": 2,
    "loaded": 3, "generated": 4, "least": 5, "requests": 2, "answered": 2, "refused": 0, "died": 0, "wrong": 1,
    "undecided": 0, "predicted": 1, "unlimited": 3, "peak_checkpoints": 1.5, "peak_cache": 2.5,
    "lost": {"a": 1, "b": 2},
}  # fmt: skip


def test_counts_are_added_and_peaks_are_the_largest():
    other = {**LINE, "session": "t", "peak_checkpoints": 0.5, "peak_cache": 9.0, "lost": {"a": 9, "c": 1},
             "sessions": 2}  # fmt: skip
    assert summed([LINE, other]) == {
        **{name: 2 * value for name, value in LINE.items() if isinstance(value, int)}, "sessions": 3, "servers": 2,
        "session": "3 sessions", "profile": "p", "peak_checkpoints": 1.5, "peak_cache": 9.0,
        "lost": {"a": 10, "b": 2, "c": 1},
    }  # fmt: skip
    assert [*summed([LINE, other])["lost"]] == ["a", "b", "c"]
    assert summed([LINE]) == {**LINE, "lost": {"b": 2, "a": 1}, "servers": 1}


def test_a_number_that_is_unknown_in_a_line_is_unknown_in_the_sum():
    found = summed([LINE, {**LINE, "wrong": None, "unlimited": None, "lost": None}])
    assert (found["wrong"], found["unlimited"], found["lost"], found["undecided"]) == (None, None, None, 0)
    older = {name: value for name, value in LINE.items() if name != "predicted"}
    assert summed([older, LINE])["predicted"] == 1


def test_there_is_a_sum_for_each_rule_set_in_the_order_of_the_lines():
    lines = [{**LINE, "profile": name} for name in ("q", "p", "q")]
    assert [(one["profile"], one["prompt"], one["servers"]) for one in totals_of(lines)] == [("q", 20, 2), ("p", 10, 1)]
    assert totals_of([]) == []
