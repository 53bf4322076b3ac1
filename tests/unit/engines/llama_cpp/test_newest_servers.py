"""What a server derives from one of the newest memories: flags, streams, warnings of K-shifts, slot files."""

from __future__ import annotations

import pytest

from cachesim.engines.base import Request
from cachesim.engines.llama_cpp import start
from cachesim.events import Decided, Log
from tests.unit.engines.llama_cpp.talk import word

NAME = "llama_cpp@b11549"


def server(model, mode="none", name=NAME, **flags):
    return start(name, model, {"ctx_size": 1024, "parallel": 1, **flags}, mode, Log())


@pytest.mark.parametrize(("model", "flags", "reuse", "shift"), [
    ("deepseek32", {}, 16, True), ("minimax-m3", {}, 16, True), ("dots3note", {}, 0, False),
    ("dots3note", {"swa_full": True}, 16, True), ("qwen4exp", {}, 0, False), ("deepseek4", {}, 0, False),
])  # fmt: skip
def test_flags_that_move_positions_are_off_where_they_cannot_move(model, flags, reuse, shift):
    fixed = server(model, cache_reuse=16, context_shift=True, **flags).core.settings
    assert (fixed.n_cache_reuse, fixed.context_shift) == (reuse, shift)


@pytest.mark.parametrize(("model", "window", "exact"), [
    ("deepseek4", 0, True), ("dots3note", 32, False), ("deepseek32", 0, False), ("qwen4exp", 0, True),
])  # fmt: skip
def test_the_window_and_the_probe_at_the_start(model, window, exact):
    fixed = server(model).core.settings
    assert (fixed.n_swa, fixed.exact) == (window, exact)


def test_the_flag_for_full_windows_sizes_the_memory_of_deepseek4_and_nothing_else():
    full = server("deepseek4", swa_full=True).core
    assert full.memory.parts["swa"].size == 1024 and full.settings.n_swa == 0 and full.settings.exact


@pytest.mark.parametrize(("model", "shared"), [("deepseek4", False), ("deepseek32", True), ("qwen4exp", True)])
def test_slots_of_deepseek4_have_a_stream_each(model, shared):
    core = server(model, parallel=2, kv_unified=True).core
    assert core.settings.unified and (core.memory.parts["base"].n_stream == 1) is shared
    assert core.settings.n_ctx_slot == 1024


@pytest.mark.parametrize(("flags", "count"), [({}, 4), ({"parallel": 2, "kv_unified": True}, 2**20),
                                              ({"parallel": 2}, 4)])  # fmt: skip
def test_blocks_are_chosen_unless_slots_share_the_cells(flags, count):
    model = server("minimax-m3", "provenance", **flags).model
    assert {layer.count for layer in model.spec.layers if layer.kind == "B"} == {count}


def test_the_decisions_about_the_memory_are_recorded():
    rules = {event.rule for event in server("deepseek4").log.events if isinstance(event, Decided)}
    assert {"LC-N-SWA-TOLD.ROWS", "LC-KV-STREAMS.OWN"} <= rules and "LC-KV-INDEX.SPOILT" not in rules


@pytest.mark.parametrize(("slots", "status"), [(1, 200), (2, 400)])
def test_a_slot_file_with_compressed_rows_names_its_streams(tmp_path, slots, status):
    first = server("deepseek4", parallel=1)
    first.complete(Request(word("A", 40), 1))
    assert first.slot("save", 0, tmp_path / "a")["status"] == 200
    second = server("deepseek4", parallel=slots, kv_unified=True)
    assert second.slot("restore", 0, tmp_path / "a")["status"] == status
    if status == 200:
        assert second.complete(Request((*word("A", 40), *word("B", 5)), 1)).cache_n == 40


@pytest.mark.parametrize("model", ["deepseek32", "dots3note", "minimax-m3", "qwen4exp", "deepseek4"])
def test_a_slot_file_brings_a_conversation_back(tmp_path, model):
    first, second = server(model, "provenance"), server(model, "provenance")
    first.complete(Request(word("A", 60), 1))
    first.slot("save", 0, tmp_path / "a")
    second.slot("restore", 0, tmp_path / "a")
    longer = Request((*word("A", 60), *word("B", 7)), 4)
    ours, theirs = second.complete(longer), server(model, "provenance").complete(longer)
    assert ours.cache_n >= 55 and [one.digest for one in ours.outputs] == [one.digest for one in theirs.outputs]


@pytest.mark.parametrize(("model", "kind", "died"), [
    ("llama", "q8_0", True), ("llama", "f16", False), ("AAAA@4096/0/128", "q8_0", False),
    ("AAAA@4096/0/96", "q8_0", True), ("AAAA", "q8_0", False),
])  # fmt: skip
def test_a_shift_of_quantized_rows_ends_the_process_by_the_width_of_heads(model, kind, died):
    one = server(model, cache_type_k=kind, ctx_size=256, context_shift=True)
    assert one.complete(Request(word("A", 250), 20)).died is died


def test_older_builds_say_from_when_on_a_memory_is_simulated():
    with pytest.raises(Exception, match="is simulated from b10809 on"):
        server("qwen4exp", name="llama_cpp@b10587")


@pytest.mark.parametrize(("build", "died"), [("b10587", True), ("b10809", False)])
def test_a_shift_of_index_rows_ended_the_process(build, died):
    one = server("deepseek32", name=f"llama_cpp@{build}", ctx_size=256, context_shift=True)
    assert one.complete(Request(word("A", 250), 20)).died is died


@pytest.mark.parametrize(("build", "clean"), [("b10587", False), ("b10809", True)])
def test_a_state_that_a_slot_reads_empties_the_compressed_rows_of_other_slots(build, clean, tmp_path):
    one = server("deepseek4", "provenance", f"llama_cpp@{build}", parallel=2)
    for slot in (0, 1):
        one.complete(Request(word("AB"[slot], 200), 1, id_slot=slot))
    one.slot("save", 1, tmp_path / "b")
    before = [rows.digest.tolist() for rows in one.core.memory.compressed[0].values()]
    one.slot("restore", 1, tmp_path / "b")
    after = [rows.digest.tolist() for rows in one.core.memory.compressed[0].values()]
    assert (before == after) is clean
