"""Reports on memory, from made data; outputs.txt has whole reports."""

from __future__ import annotations

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import BUILTIN, rules_of
from cachesim.engines.shared.memory_use import MemoryPart, MemoryUse
from cachesim.engines.shared.model_sizes import real_model
from cachesim.tools.memory.estimate import Lowered, MemoryEstimate
from cachesim.tools.memory.report import memory_data, memory_report

GIB, MIB = 1 << 30, 1 << 20
MODEL, PROFILE = real_model("qwen3"), "llama_cpp@b9518"


def made(total, *lower, together=(), given=None, most=0, **use):
    """Return the estimate of a server with two parts, of which the second is 14 bytes of the host's memory."""
    parts = MemoryPart("rows", total - 14, 1, "tokens"), MemoryPart("stored", 7, 2, "entries", host=True)
    sizes = {"token": 0, "window": 0, "state": 0, "checkpoint": 0, **use}
    return MemoryEstimate(BUILTIN["llama_cpp"], rules_of(PROFILE), given or {}, MemoryUse(parts=parts, **sizes),
                          lower, together, most)  # fmt: skip


def lines(found, room=0):
    """Return the lines of a report, each with single spaces."""
    return [" ".join(line.split()) for one in memory_report(memory_data("word", MODEL, found, room))
            for line in as_text(one).splitlines()]  # fmt: skip


@pytest.mark.parametrize(("total", "text"), [
    (3 * GIB, "3.0 GiB"), (GIB, "1.0 GiB"), (GIB // 2, "512.0 MiB"), (1200 * GIB, "1,200.0 GiB")])  # fmt: skip
def test_the_answer_comes_first(total, text):
    assert text in lines(made(total))[0]


@pytest.mark.parametrize(("use", "room", "named"), [
    ({"unlimited": "cache_ram"}, 0, ["3.0 GiB", "--cache-ram"]), ({}, 4 * GIB, ["3.0 GiB", "4.0 GiB"]),
    ({}, GIB, ["3.0 GiB", "1.0 GiB"]),
    ({"takes_all": True, "pool": {"blocks": 1234}}, 4 * GIB, ["4.0 GiB", "1,234 blocks"]),
])  # fmt: skip
def test_the_answer_names_the_room_or_what_has_no_limit(use, room, named):
    found = lines(made(3 * GIB, **use), room)[0]
    assert all(text in found for text in named)


def test_a_total_that_fits_reads_differently_from_one_that_does_not():
    assert len({lines(made(3 * GIB), room)[0].replace("4.0", "x").replace("2.0", "x") for room in (
        4 * GIB, 2 * GIB)}) == 2  # fmt: skip


def test_sizes_parts_notes_and_the_largest_context_follow():
    use = {"token": 2048, "window": 1024, "state": 2000 * MIB, "checkpoint": MIB // 2, "notes": ("one", "two"),
           "pool": {"blocks": 1234}, "chosen": {"parallel": 4}}  # fmt: skip
    text = "\n".join(lines(made(3 * MIB + 14, given={"ctx_size": 9}, most=5000, **use), 2 * GIB))
    for number in ("rows 1 tokens 3,145,728 3.0", "stored 2 entries 7 0.0 ▌ host", "2,048 bytes", "1,024 bytes",
                   "2,000.000 MiB", "0.500 MiB", "one", "two", "1,234 blocks", "5,000 tokens", "--ctx-size 9",
                   "parallel 4"):  # fmt: skip
        assert number in text


def test_three_flags_to_lower_are_shown_and_those_that_fit_together():
    change = Lowered("ctx_size", 9, 4, GIB, False)
    text = lines(made(3 * GIB, *[change] * 9, together=[change, Lowered("parallel", 4, 1, GIB // 2, True)]), 2 * GIB)
    assert sum("--ctx-size 9 -> 4" in line and "1.0 GiB" in line for line in text) == 3
    assert any("--ctx-size 4 --parallel 1" in line and "512.0 MiB" in line for line in text)
    switch = lines(made(3 * GIB, Lowered("kv_unified", True, False, GIB, True)), 2 * GIB)[-1]
    assert "--kv-unified -> off" in switch and "fits" in switch


def test_the_data_has_every_number_and_the_servers_spelling_of_flags():
    lower = Lowered("ctx_checkpoints", 8, 4, 33, True), Lowered("own", 2, 1, 40, None)
    given = {"parallel": 2, "ctx_size": 512, "cache_type_k_draft": "f16"}
    found = made(44, *lower, given=given, most=99, unlimited="cache_ram", chosen={"parallel": 4, "ctx_size": 512})
    data = memory_data("word", MODEL, found, 44)
    assert {one["flag"]: one["value"] for one in data["set"]} == {
        "--parallel": 2, "--ctx-size": 512, "--cache-type-k-draft": "f16"}  # fmt: skip
    assert (data["total"], data["fits"], data["unlimited"]) == (44, False, "--cache-ram")
    assert [(one["flag"], one["after"], one["total"]) for one in data["lower"]] == [
        ("--ctx-checkpoints", 4, 33), ("own", 1, 40)]  # fmt: skip
    assert data["chosen"] == [{"name": "parallel", "number": 4}]
    assert [memory_data("w", MODEL, made(44), room)["fits"] for room in (0, 43, 44)] == [None, False, True]
