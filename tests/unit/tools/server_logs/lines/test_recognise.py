"""Identification of the engine of a log by its lines."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.lines.recognise import (
    engine_of_log,
    foreign_software,
    grammars,
    recognise,
    unknown_log,
)

LLAMA = "slot launch_slot_: id  0 | task 7 | processing task, is_child = 0"
IK = "INFO [   launch_slot_with_task] slot is processing task | tid=1 id_slot=0 id_task=7"
MLX = "2026-11-21 13:50:16,140 - INFO - Prompt Cache: 3 sequences, 0.00 GB"


@pytest.mark.parametrize("line, engine", [(LLAMA, "llama_cpp"), (IK, "ik_llama"), (MLX, "mlx_lm")])
def test_a_log_is_that_of_the_engine_that_prints_its_lines(line, engine):
    assert engine_of_log(["hello", line]) == engine and recognise(line)[0].engine == engine


def test_unknown_lines_have_no_engine():
    assert engine_of_log([]) is None and engine_of_log(["hello", ""]) is None and recognise("hello") == []


def test_only_the_requested_engines_are_tried():
    assert {one.engine for one in recognise(LLAMA, ["llama_cpp"])} == {"llama_cpp"}
    assert recognise(LLAMA, ["mlx_lm"]) == [] and set(grammars()) >= {"llama_cpp", "ik_llama", "mlx_lm"}


@pytest.mark.parametrize("line, name", [
    ("[TRT-LLM] [I] Engine 000", "TensorRT-LLM"),
    ('127.0.0.1 "POST /v1/completions HTTP/1.1" 200', "an HTTP server"), (LLAMA, ""), ("", ""),
])  # fmt: skip
def test_logs_of_something_else_are_named(line, name):
    assert foreign_software(["hello", line]) == name


@pytest.mark.parametrize(("prefix", "slot", "task"), [
    ("id  3 | task 7", 3, 7), ("id  0 | task 0", 0, 0), ("id -1 | task -1", None, None), ("id  3 | task -1", 3, None)])
def test_a_negative_slot_or_task_is_none(prefix, slot, task):
    [found, *_] = recognise(f"slot get_availabl: {prefix} | selected slot by LRU, t_last = -1")
    assert (found.read.slot, found.read.task) == (slot, task)


@pytest.mark.parametrize(("text", "cause"), [
    ("something else", "not a known server log"),
    ("[TensorRT-LLM][INFO] [TRT-LLM] engine", "log of unsupported software: TensorRT-LLM"),
])  # fmt: skip
def test_a_file_without_a_known_line_is_refused_with_the_supported_servers(tmp_path, text, cause):
    file = tmp_path / "server.log"
    file.write_text(f"{text}\n")
    error = unknown_log(file)
    assert error.cause == cause and error.file == str(file)
    assert error.hint.startswith("supported: ") and "llama.cpp" in error.hint and "mlx-lm" in error.hint


def test_the_fields_after_a_bar_are_numbers_of_the_line():
    line = "INFO [ batch_pending_prompt] kv cache rm [p0, end) | id_slot=3 id_task=5 p0=40"
    [found, *_] = recognise(line, ["ik_llama"])
    assert (found.engine, found.read.line.ev, found.read.slot, found.read.task) == ("ik_llama", "batch", 3, 5)
    assert found.read.numbers["p0"] == 40


@pytest.mark.parametrize("engine", grammars())
def test_each_engine_can_be_the_only_one_that_is_tried(engine):
    line = next(one.template for one in grammars()[engine].lines if "{" not in one.template and not one.needs)
    assert {one.engine for one in recognise(line, [engine])} == {engine}
