"""Tests of micro-batches, bytes of stored objects and draft memory in the data of a run."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import ENGINES
from cachesim.events import MicroBatch
from cachesim.judging.judged_run import run_judged
from cachesim.judging.memory_data import micro_batches
from cachesim.judging.memory_text import memory_parts
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.run_table import run_report

LLAMA, IK, MLX = "llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"


def ran(line, profile, model="GGGA", **server):
    scenario = from_line(line, model=model, profiles=(profile,), server=server)
    return run_data(run_judged(scenario, profile, "provenance"))


@pytest.mark.parametrize(("profile", "server"), [(LLAMA, {"parallel": 1}), (IK, {}), (MLX, {})])
def test_micro_batches_cover_exactly_the_evaluated_tokens(profile, server):
    """Every token that the answer counts as evaluated, and every generated token but the last, was in one of them."""
    data = ran("S40.A60>5/S.A.B30>4", profile, "GGGA", **server)
    for request in data["requests"]:
        fed = sum(batch["repeats"] * sum(n for _, _, n in batch["spans"]) for batch in request["micro_batches"])
        generated = 5 if request["i"] == 0 else 4
        assert fed == request["prompt_n"] + generated - (profile != MLX)


def test_micro_batches_follow_the_split_of_the_build():
    """A hybrid model gets equally many tokens of each sequence, an attention model the tokens in their order."""
    both = {"parallel": 2, "ubatch_size": 16, "kv_unified": True}

    def second(model):
        run = ran("A20>3/B30>3{together}", LLAMA, model, **both)
        return [batch["spans"] for one in run["requests"] for batch in one["micro_batches"] if len(batch["spans"]) > 1]

    equal, simple = second("GGGA"), second("A")
    assert equal and simple
    assert {n for spans in equal for _, _, n in spans} != {n for spans in simple for _, _, n in spans}
    assert all(len({n for _, _, n in spans}) == 1 for spans in equal)


def test_steps_of_a_generation_are_counted():
    steps = [MicroBatch(part, ((0, pos, 1),)) for pos in (9, 10, 11) for part in ("target", "draft")]
    events = [MicroBatch("target", ((0, 0, 9),)), *steps, MicroBatch("target", ((0, 20, 1),))]
    found = [(batch["part"], batch["spans"], batch["repeats"]) for batch in micro_batches(events)]
    assert found == [("target", [[0, 0, 9]], 1), ("target", [[0, 9, 1]], 3), ("draft", [[0, 9, 1]], 3),
                     ("target", [[0, 20, 1]], 1)]  # fmt: skip


@pytest.mark.parametrize(("profile", "server"), [(LLAMA, {"parallel": 1}), (IK, {}), (MLX, {})])
def test_sizes_add_up_to_the_bytes_that_the_server_stores(profile, server):
    engine = ENGINES[profile.partition("@")[0]]
    last = ran("S40.A60>5/B50>3/C30", profile, "GGGA", **server)["requests"][-1]
    started = engine.start(profile, "GGGA", server, "provenance")
    assert started.sizes.stored_sizes() == [] and last["sizes"]
    for size in last["sizes"]:
        assert size["bytes"] > size["draft_bytes"] + size["checkpoint_bytes"] >= 0 and size["tokens"] > 0
    entries = [size for size in last["sizes"] if size["kind"] == "entry"]
    assert len(entries) == last["entries"]
    if profile != MLX and last["stored_mib"] is not None:
        assert round(sum(size["bytes"] for size in entries) / 1048576, 3) == last["stored_mib"]


def test_the_memory_of_a_draft_model_and_what_is_stored_of_it():
    data = ran("A20>8{drafts=3:1}/B9>6", LLAMA, "A+M", parallel=1, spec_type="draft-mtp")
    first, second = data["requests"]
    held = first["draft_memory"]
    assert (held["rows"], held["pos_min"], held["pos_max"], held["state_pos"]) == (27, 0, 26, -1)
    assert second["sizes"][0]["draft_bytes"] > 0
    assert {batch["part"] for batch in second["micro_batches"]} == {"target", "draft"}
    text = " ".join(as_text(run_report(data, verbose=1)).split())
    assert "draft memory: 27 rows, positions 0..26" in text and "micro-batches of the draft model: slot 0: 0..8" in text
    assert ran("A20", LLAMA, "A", parallel=1)["requests"][0]["draft_memory"] is None


def test_the_memory_of_the_companion_of_ik_llama():
    data = ran("A20>8{drafts=3:1}", IK, "A+M", parallel=1, spec_type="mtp")
    assert data["requests"][0]["draft_memory"]["rows"] > 0


def test_bytes_that_the_server_does_not_count_are_listed():
    memory = {"sizes": [], "uncounted": 2000, "draft_memory": None, "micro_batches": []}
    assert list(memory_parts(memory)) == ["2,000 more bytes that the server does not count"]


def test_repeated_micro_batches_are_counted():
    batches = [{"part": "target", "spans": [[0, 0, 9]], "repeats": 1},
               {"part": "target", "spans": [[0, 9, 1]], "repeats": 2},
               {"part": "target", "spans": [[1, 4, 2], [0, 11, 1]], "repeats": 3}]
    nothing = {"sizes": [], "uncounted": 0, "draft_memory": None}
    assert list(memory_parts({**nothing, "micro_batches": batches})) == [
        "6 micro-batches: slot 0: 0..8, 2 from slot 0: 9 on, 3 from slot 1: 4..5 + slot 0: 11 on"]
