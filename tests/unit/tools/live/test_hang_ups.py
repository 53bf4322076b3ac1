"""Tests of recorded requests whose client disconnected, from the server's log lines."""

from __future__ import annotations

from cachesim.tools.live.llama_server.answers import hung_up
from cachesim.tools.live.llama_server.process import Logbook
from cachesim.tools.live.llama_server.tasks import read_tasks


def said(tmp_path, *lines):
    file = tmp_path / "server.log"
    file.write_text("".join(f"0.00.291.467 {line}\n" for line in lines), "utf-8")
    return list(Logbook(file).read())


def token(task, n, number, text):
    return f"D slot process_toke: id  0 | task {task} | n_gen = {n}, n_remaining = 9, next token: {number:5d} '{text}'"


def launch(task, child=0, slot=None):
    at = task if slot is None else slot
    return f"I slot launch_slot_: id  {at} | task {task} | processing task, is_child = {child}"


def copy(task, child):
    return f"I slot update_slots: id  {task} | task {task} |  - copying state to child {child}"


def new_prompt(task, n):
    at = f"id  {task} | task {task} |"
    return f"I slot   operator(): {at} new prompt, n_ctx_slot = 64, n_keep = 0, task.n_tokens = {n}"


def release(task, n):
    return f"I slot      release: id  {task} | task {task} | stop processing: n_tokens = {n}, truncated = 0"


def test_a_newline_is_a_token(tmp_path):
    lines = said(tmp_path, launch(0), token(0, 1, 95, "\n"), token(0, 2, 7, "'"), token(0, 3, 98, ""))
    assert read_tasks(lines)[0].tokens == [95, 7, 98]


def test_what_came_to_lie_in_the_slot(tmp_path):
    lines = said(tmp_path, launch(0), new_prompt(0, 3), token(0, 1, 95, "\n"), token(0, 2, 211, "x"), release(0, 4))
    found = hung_up([], {"prompt": [1, 2, 3]}, lines, 0)
    assert found == {"cancelled": True, "tokens": [], "tokens_in_slot": [95], "streamed_tokens_match": True}


def test_several_completions(tmp_path):
    """Their tokens arrive mixed; the log has those of each task."""
    lines = said(tmp_path, launch(4, 1), launch(5, 1), launch(6), new_prompt(6, 3), *(
        token(task, n, number, "x") for n, number in ((1, 21), (2, 29)) for task in (4, 5, 6)
    ), release(4, 4), release(6, 4), release(5, 4))
    found = hung_up([21, 21, 21, 29], {"prompt": [1, 2, 3], "n_cmpl": 3}, lines, 6)
    assert found == {
        "cancelled": True, "tokens": [21, 21, 21, 29], "tokens_in_slot": [21], "streamed_tokens_match": False,
        "completions": [{"index": 1, "tokens": [21, 29]}, {"index": 2, "tokens": [21, 29]}],
    }
