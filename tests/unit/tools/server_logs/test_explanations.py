"""Lines that are explained although their prefix or a part of them is missing, and lines that are not about caches."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs import explanations
from cachesim.tools.server_logs.explanations import explain_line, explain_ordinary, explain_text, ordinary_name
from cachesim.tools.server_logs.recognise import grammars

LRU = "selected slot by LRU, t_last = -1"
FULL = "slot update_slots: id  3 | task 7 | "
CHECK = "checking checkpoint with [46260, 46261] against 43667..."


@pytest.mark.parametrize("line", [LRU, f"x: {LRU}", f"somebody wrote {LRU}", f"\x1b[32m{LRU}\x1b[0m"])
def test_a_message_is_found_without_the_prefix_of_its_server(line):
    found = explain_line(line)
    assert (found["engine"], found["kind"], found["slot"], found["task"]) == ("llama_cpp", "slot_by_lru", None, None)


def test_slot_and_task_of_a_prefix_belong_to_a_message_after_other_words():
    found = explain_line(f"{FULL}oh: {LRU}")
    assert (found["kind"], found["slot"], found["task"]) == ("slot_by_lru", 3, 7)


@pytest.mark.parametrize("line, kind, numbers", [
    ("checking checkpoint with [46260,", "ckpt_check", {"pos_min": 46260}), ("selected slot by LRU", "slot_by_lru", {}),
])  # fmt: skip
def test_a_part_of_a_message_is_explained_without_the_numbers_that_it_lacks(line, kind, numbers):
    found = explain_line(line)
    assert (found["kind"], found["numbers"]) == (kind, numbers)


@pytest.mark.parametrize("line, name", [
    ('10.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK', "HTTP access line"),
    ("[GIN] 2024/01/01 - 10:00:00 | 200", "HTTP access line"),
    ("Traceback (most recent call last):", "traceback"), ('  File "a.py", line 3, in f', "traceback"),
    ("Loading: 40%|####      | 4/10 [00:01<00:01]", "progress bar"),
])  # fmt: skip
def test_lines_of_any_server_that_are_not_about_caches_have_a_name(line, name):
    found = explain_ordinary(line)
    assert (found["is"], found["text"]) == (name, line) and ordinary_name(grammars()["mlx_lm"], line) != ""
    assert found["engine"] in ("", *grammars())


def test_an_unknown_line_has_no_name():
    assert explain_ordinary("something else") is None and ordinary_name(grammars()["llama_cpp"], "something else") == ""


def test_a_long_ordinary_line_is_cut():
    line = '"GET / HTTP/1.1" ' + "x" * 500
    assert explain_ordinary(line)["text"] == line[:400]


def test_ordinary_lines_of_a_log_are_counted_by_name():
    lines = [*(f'File "a.py", line {at}, in f' for at in range(3)), "4%|x| 4/10", "unknown", f"{FULL}{LRU}"]
    found = explain_text("\n".join(lines))
    assert found["ordinary"] == [{"is": "traceback", "times": 3}, {"is": "progress bar", "times": 1}]
    assert (found["known"], found["lines"]) == (1, 6)


def test_verdicts_are_limited_and_name_their_lines(monkeypatch):
    monkeypatch.setattr(explanations, "MAX_VERDICTS", 2)
    lines = [f"{FULL}{CHECK}"] * 4
    found = explain_text("\n".join(lines))
    assert [one["line"] for one in found["verdicts"]] == [1, 2] and found["kinds"][0]["times"] == 4
    assert all(one["text"] == CHECK and one["verdict"] for one in found["verdicts"])


@pytest.mark.parametrize("line", ["- saving prompt with length 179, total state size = 0.090 MiB (draft: 0.000 MiB)",
                                  "cached n_tokens = 0, memory_seq_rm [0, end)"])  # fmt: skip
def test_a_message_alone_is_explained(line):
    found = explain_line(line)
    assert found["text"] == line and explain_line(f"so they said {line}")["kind"] == found["kind"]


@pytest.mark.parametrize("line, engine, name", [
    ("srv  log_server_r: done request: POST /infill 127.0.0.1 200", "llama_cpp", "HTTP access line"),
    ("Loading safetensors checkpoint shards", "vllm", "loading of the model"),
    ("GET / HTTP/1.1", "", "HTTP access line"),
])  # fmt: skip
def test_an_ordinary_line_names_the_engine_that_prints_it(line, engine, name):
    assert explain_ordinary(line) == {"engine": engine, "is": name, "text": line}
