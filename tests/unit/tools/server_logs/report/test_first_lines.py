"""First lines of the report: each states what the log or its simulation shows, and is left out otherwise."""

from __future__ import annotations

import re

import pytest

from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.report.first_lines import (
    STDIN_NAME,
    facts_first,
    first_lines,
    following,
    requests_of,
)
from tests.unit.tools.server_logs.report_sentences import said as statement
from tests.unit.tools.server_logs.simulated_log import simulated_log

VERBOSE = "new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {prompt}"


def served(task, prompt, evaluated, made=10, ms=2000, slot=0, choice=""):
    """Return the lines of a request: its slot selection, launch, timings and release."""
    head = f"slot print_timing: id  {slot} | task {task} |"
    return [
        *([f"slot get_availabl: id  {slot} | task -1 | {choice}"] if choice else []),
        f"slot launch_slot_: id  {slot} | task {task} | processing task",
        f"{head} prompt eval time = {ms}.00 ms / {evaluated} tokens (1 ms per token)",
        f"{head} eval time = 9.00 ms / {made} tokens (x)",
        f"slot      release: id  {slot} | task {task} | stop processing: n_tokens = {prompt + made - 1}, truncated = 0",
    ]


def shares(f_sim, f_keep):
    """Return the line of a slot that was selected by its similarity."""
    return f"selected slot by LCP similarity, f_sim_best = {f_sim:.3f} (> 0.100 thold), f_keep = {f_keep:.3f}"


FULL = [
    "slot launch_slot_: id  0 | task 60 | processing task",
    f"slot update_slots: id  0 | task 60 | {VERBOSE.format(prompt=3000)}",
    "slot update_slots: id  0 | task 60 | n_past = 1000, slot.prompt.tokens.size() = 2009, seq_id = 0, pos_min = 2008",
    "slot update_slots: id  0 | task 60 | forcing full prompt re-processing due to lack of cache data",
]


EDITED = [*served(1, 2000, 2000), *served(60, 3000, 2500, ms=6000, choice=shares(0.333, 0.498))]
"""A prompt that differs after about 1,000 of 2,009 tokens, and reuses 500 of them."""


REFUSED = [
    f"slot get_availabl: id  0 | task -1 | {shares(0.400, 0.996)}",
    "slot launch_slot_: id  0 | task 50 | processing task",
    "srv    send_error: task id = 50, error: request (5000 tokens) exceeds the available context size (4096 tokens), "
    "try increasing it",
    "slot      release: id  0 | task 50 | stop processing: n_tokens = 2009, truncated = 0",
]


def numbers_in(text):
    """Return the numbers of a sentence."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def said(*lines, out="", **more):
    """Return the first lines of a log, by kind."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    statements = [statement.as_data() for statement in conclude(session).statements]
    data = {"file": "a.log", "engine": "llama_cpp", "statements": statements, "line": "A9", "turns": [], "cures": [],
            "arguments": [],
            "assumed_options": {}}  # fmt: skip
    return {line.what: line.says for line in first_lines({**data, **more}, out)}


def test_the_time_is_that_of_the_requests_that_lost_tokens():
    assert numbers_in(said(*EDITED)["time"]) == [2500, 6, 8]
    both = [*EDITED, *served(90, 4000, 3500, ms=1000, choice=shares(0.250, 0.333))]
    assert numbers_in(said(*both)["time"]) == [6000, 7, 9]
    appended = [*served(1, 2000, 2000), *served(60, 3000, 991, ms=1000, choice=shares(0.670, 1.0))]
    assert numbers_in(said(*appended)["time"]) == [3, 2]


@pytest.mark.parametrize(("lines", "numbers"), [
    (EDITED, [0, 60, 2003, 2010, 998, 1000, 2000]),                              # of the previous prompt
    ([*served(1, 1200, 1200), *EDITED[4:]], [0, 60, 2003, 2010, 998, 1000]),     # the slot holds something else
    ([*EDITED[:4], *REFUSED, *EDITED[4:]], [0, 60, 2003, 2010, 998, 1000]),
    ([*served(1, 2000, 2000, made=500), *served(60, 3000, 1000, choice=shares(0.733, 0.880))], [0, 60, 2497, 2501]),
    ([*served(1, 2000, 2000), *served(60, 3000, 991, choice=shares(0.670, 1.0))], [0, 60, 2009, 2012]),
])  # fmt: skip
def test_where_a_prompt_differs_from_its_slot(lines, numbers):
    """The slot and task, the tokens of the slot, those in common, and the previous prompt if it differs in it."""
    assert numbers_in(said(*lines)["change"])[: len(numbers)] == numbers
    assert len(numbers) < 6 or len(numbers_in(said(*lines)["change"])) == len(numbers)


def test_what_the_costliest_request_reused():
    assert numbers_in(said(*EDITED)["reused"]) == [500, 3000]
    assert numbers_in(said(*FULL)["reused"]) == [3000]
    path = "srv  log_server_r: done request: POST /infill 127.0.0.1 200"
    assert "LC-TASK.COMPLETION" in said(path, *FULL)["reused"] and "LC-TASK" not in str(said(path, *EDITED))


@pytest.mark.parametrize("verbosity", [3, 4])
def test_a_prompt_that_was_not_cached_has_no_cause_in_the_log(tmp_path, verbosity):
    file = tmp_path / "server.log"
    file.write_text(simulated_log("S300.A200>a20/S.A.a.B100>b10!", "A", verbosity=verbosity))
    statements = import_log(file)[0]["statements"]
    (reused,) = [line.says for line in facts_first(statements) if line.what == "reused"]
    assert numbers_in(reused) == [0, 620] and "cache_prompt" in reused


def test_a_log_without_losses_has_no_cure_and_no_assumption():
    lossless = served(1, 2000, 2000)
    options = {"ctx_checkpoints": 0}
    assert {"cure", "assumed"}.isdisjoint(said(*lossless)) and "next" not in said(*lossless, line="")
    assert "cure" in said(*EDITED) and "assumed" not in said(*EDITED, assumed_options=options, line="")
    assert "--ctx-checkpoints 0" in said(*EDITED, assumed_options=options)["assumed"]


def test_the_line_that_ends_the_server_comes_first():
    line = "/src/server.cpp:3870: pos_min == -1, but n_past > 0 - should not happen"
    found = said(*FULL, line)
    assert next(iter(found)) == "ended" and line in found["ended"] and "5" in found["ended"].partition(":")[0]


def test_the_time_is_left_out_if_a_request_that_lost_tokens_has_none():
    head = "slot update_slots: id  0 | task 60 |"
    untimed = [
        f"{head} {VERBOSE.format(prompt=3000)}",
        f"{head} n_past = 1000, slot.prompt.tokens.size() = 2009, seq_id = 0, pos_min = 0",
        f"{head} forcing full prompt re-processing due to lack of cache data",
        f"{head} n_tokens = 0, memory_seq_rm [0, end)",
        "the server says something else",
    ]
    found = said(*served(1, 2000, 2000), EDITED[4], EDITED[5], *untimed)
    assert "time" not in found and "reused" in found


@pytest.mark.parametrize(("data", "out", "command"), [
    ({"file": "a.log", "arguments": ["-p", "x"]}, "", "cachesim why a.log -p x"),
    ({"file": STDIN_NAME, "arguments": ["-p", "x"]}, "",
     "cachesim why FILE -p x"),
    ({"file": "a.log", "arguments": ["-p", "x", "--limit", "tokens=5", "--limit", "log-requests=9"]}, "o.toml",
     "cachesim why o.toml --limit tokens=5"),
    ({"file": "a.log", "arguments": ["--model", "tokens=5", "--limit", "rebuilt=9"]}, "o.toml", "cachesim why o.toml"),
])  # fmt: skip
def test_the_next_command_repeats_the_run_of_the_import(data, out, command):
    assert following(data, "why", out).endswith(command)


def test_the_time_names_the_lines_that_print_it():
    def lines(*log):
        session = read_session("llama_cpp", grammars()["llama_cpp"], log)
        found = facts_first([statement.as_data() for statement in conclude(session).statements])
        return [line.lines for line in found if line.what == "time"]

    both = [*EDITED, *served(90, 4000, 3500, ms=1000, choice=shares(0.250, 0.333))]
    assert (lines(*EDITED), lines(*both)) == ([(7,)], [(7, 12)])
    assert lines(*served(1, 2000, 2000), *served(2, 10, 10, slot=1)) == [(2, 6)]


def test_a_line_that_names_no_task_belongs_to_no_request():
    rows = statement(line=5, task=None, slot=None, n_tokens=9), statement("full_reprocess", 5, None, "read", slot=None)
    [one] = requests_of(rows)
    assert (one.name, one.kinds, {*one.numbers}) == ("line 5", {}, {"n_tokens"})


def test_requests_have_their_last_lines_and_times():
    (one,) = requests_of([statement("batch", 3, 7, "read"), statement("batch", 8, 7, "read"),
                          statement("prompt_time", 9, 7, "read", prompt_ms="x"), statement(line=4, lcp=[None, 5]),
                          statement("option", 1, None), statement(task=9), statement("batch", 2, None, "read")])
    assert (one.kinds, one.prompt_ms, one.lines) == ({"batch": 8, "prompt_time": 9}, None, {"lcp": (4,)})
    assert (one.numbers["lcp"].low, one.numbers["lcp"].high, one.lost) == (0, 5, None)
