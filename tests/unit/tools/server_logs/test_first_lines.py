"""First lines of the report: each states what the log or its simulation shows, and is left out otherwise."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.conclusions import conclude
from cachesim.tools.server_logs.first_lines import (
    STDIN_NAME,
    FirstLine,
    facts_first,
    first_lines,
    following,
    requests_of,
)
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.log_reader import read_session
from cachesim.tools.server_logs.recognise import grammars
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


def said(*lines, out="", **more):
    """Return the first lines of a log, by kind."""
    session = read_session("llama_cpp", grammars()["llama_cpp"], lines)
    statements = [statement.as_data() for statement in conclude(session).statements]
    data = {"file": "a.log", "engine": "llama_cpp", "statements": statements, "line": "A9", "turns": [], "cures": [],
            "arguments": [],
            "assumed_options": {}}  # fmt: skip
    return {line.what: line.says for line in first_lines({**data, **more}, out)}


EDITED = [*served(1, 2000, 2000), *served(60, 3000, 2500, ms=6000, choice=shares(0.333, 0.498))]
"""A prompt that differs after about 1,000 of 2,009 tokens, and reuses 500 of them."""


def test_the_time_is_that_of_the_requests_that_lost_tokens():
    end = "that the log prints for prompts."
    assert said(*EDITED)["time"] == f"That request evaluated 2,500 tokens in 6.0 s of the 8.0 s {end}"
    both = [*EDITED, *served(90, 4000, 3500, ms=1000, choice=shares(0.250, 0.333))]
    assert said(*both)["time"] == f"Those requests evaluated 6,000 tokens in 7.0 s of the 9.0 s {end}"


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


def test_a_log_without_losses_has_its_whole_time():
    appended = [*served(1, 2000, 2000), *served(60, 3000, 991, ms=1000, choice=shares(0.670, 1.0))]
    assert said(*appended)["time"] == "The log prints 3.0 s for the prompts of 2 requests."


def test_an_edited_prompt_differs_inside_the_previous_prompt():
    assert said(*EDITED)["change"] == (
        "slot 0, task 60: the prompt differs from the 2,003 to 2,010 tokens of its slot after 998 to 1,000 tokens, "
        "inside the previous prompt of 2,000."
    )


def test_a_changed_answer_differs_inside_the_previous_answer():
    lines = [*served(1, 2000, 2000, made=500), *served(60, 3000, 1000, choice=shares(0.733, 0.880))]
    assert said(*lines)["change"].endswith(" tokens, inside the previous answer.")


def test_where_a_prompt_differs_is_left_out_if_the_slot_holds_something_else():
    other = [*served(1, 1200, 1200), *EDITED[4:]]
    assert said(*other)["change"].endswith("after 998 to 1,000 tokens.")


def test_rounded_shares_of_an_appended_prompt_do_not_call_it_different():
    appended = [*served(1, 2000, 2000), *served(60, 3000, 991, choice=shares(0.670, 1.0))]
    assert " the prompt agrees with the " in said(*appended)["change"]


def test_the_reused_tokens_are_those_of_the_costliest_request():
    assert said(*EDITED)["reused"] == (
        "It reused 500 of 3,000 prompt tokens; the log does not show which checkpoints existed."
    )


def test_a_forced_evaluation_says_that_no_checkpoint_was_usable():
    forced = "slot update_slots: id  0 | task 60 | forcing full prompt re-processing due to lack of cache data"
    lines = [*served(1, 2000, 2000), *served(60, 3000, 3000, choice=shares(0.333, 0.498))]
    assert said(*lines[:6], forced, *lines[6:])["reused"] == (
        "The server found no usable checkpoint and evaluated all 3,000 tokens of the prompt."
    )


def test_a_cure_names_the_request_as_the_log_does():
    cure = {"change": "-np 4", "slot": 0, "task": 60, "evaluated": 1500, "rests_on": [], "before": 2500}
    assert said(*EDITED, cures=[cure])["cure"] == (
        "Cure: with -np 4, slot 0, task 60 evaluates 1,500 instead of 2,500 tokens in a simulation of the log."
    )


def test_without_a_cure_the_log_shows_none():
    assert said(*EDITED)["cure"].startswith("The log does not show what would help")
    assert "cure" not in said(*served(1, 2000, 2000))


def test_assumed_options_are_asked_about():
    options = {"ctx_checkpoints": 0}
    assert said(*EDITED, assumed_options=options)["assumed"] == (
        "The simulation assumes --ctx-checkpoints 0: is that your setting?"
    )
    assert "assumed" not in said(*EDITED) and "assumed" not in said(*EDITED, assumed_options=options, line="")


TURNS = [{"number": 7, "lost": 9}, {"number": 1, "lost": 2}]


@pytest.mark.parametrize(
    ("more", "command"),
    [
        ({}, "next: cachesim advise a.log"),
        ({"out": "x.toml", "turns": TURNS}, "next: cachesim why x.toml 7"),
        ({"file": "-"}, "next: save the log in a file, then cachesim import FILE -o case.toml"),
    ],
)
def test_the_next_command_fits_the_result(more, command):
    assert said(*EDITED, **more)["next"] == command


def test_a_log_without_losses_is_imported_next():
    assert said(*served(1, 2000, 2000))["next"] == "next: cachesim import a.log -o case.toml"
    assert "next" not in said(*served(1, 2000, 2000), line="")


@pytest.mark.parametrize("verbosity", [3, 4])
def test_a_prompt_that_was_not_cached_has_no_cause_in_the_log(tmp_path, verbosity):
    file = tmp_path / "server.log"
    file.write_text(simulated_log("S300.A200>a20/S.A.a.B100>b10!", "A", verbosity=verbosity))
    statements = import_log(file)[0]["statements"]
    (reused,) = [line.says for line in facts_first(statements) if line.what == "reused"]
    assert reused == ("It reused 0 of 620 prompt tokens; its lines do not show the cause "
                      "(cache_prompt = false prints no line).")  # fmt: skip


@pytest.mark.parametrize(("data", "out", "command"), [
    ({"file": "a.log", "arguments": ["-p", "x"]}, "", "cachesim why a.log -p x"),
    ({"file": STDIN_NAME, "arguments": ["-p", "x"]}, "",
     "save the log in a file, then cachesim why FILE -p x"),
    ({"file": "a.log", "arguments": ["-p", "x", "--limit", "tokens=5", "--limit", "log-requests=9"]}, "o.toml",
     "cachesim why o.toml --limit tokens=5"),
    ({"file": "a.log", "arguments": ["--model", "tokens=5", "--limit", "rebuilt=9"]}, "o.toml", "cachesim why o.toml"),
])  # fmt: skip
def test_the_next_command_repeats_the_run_of_the_import(data, out, command):
    assert following(data, "why", out) == command


FULL = [
    "slot launch_slot_: id  0 | task 60 | processing task",
    f"slot update_slots: id  0 | task 60 | {VERBOSE.format(prompt=3000)}",
    "slot update_slots: id  0 | task 60 | n_past = 1000, slot.prompt.tokens.size() = 2009, seq_id = 0, pos_min = 2008",
    "slot update_slots: id  0 | task 60 | forcing full prompt re-processing due to lack of cache data",
]


def test_infill_requests_are_named_as_the_reason_for_missing_checkpoints():
    path = "srv  log_server_r: done request: POST /infill 127.0.0.1 200"
    assert said(path, *FULL)["reused"] == (
        "The log shows the paths of infill requests, which create no checkpoints and do not use the prompt cache "
        "(LC-TASK.COMPLETION, read in the source).")  # fmt: skip
    assert said(*FULL)["reused"].startswith("The server found no usable checkpoint")
    assert "infill" not in str(said(path, *EDITED))


def test_the_line_that_ends_the_server_comes_first():
    line = "/src/server.cpp:3870: pos_min == -1, but n_past > 0 - should not happen"
    found = said(*FULL, line)
    assert next(iter(found)) == "ended"
    assert found["ended"] == (
        "Line 5: the memory of a slot is empty although the slot has tokens; the server aborts: "
        f'"{line}".')  # fmt: skip


def test_a_line_is_data_with_its_numbers_as_a_list():
    assert FirstLine("time", "took 5 s", (3, 4)).as_data() == {"what": "time", "says": "took 5 s", "lines": [3, 4]}


def test_the_time_names_the_lines_that_print_it():
    def lines(*log):
        session = read_session("llama_cpp", grammars()["llama_cpp"], log)
        found = facts_first([statement.as_data() for statement in conclude(session).statements])
        return [line.lines for line in found if line.what == "time"]

    both = [*EDITED, *served(90, 4000, 3500, ms=1000, choice=shares(0.250, 0.333))]
    assert (lines(*EDITED), lines(*both)) == ([(7,)], [(7, 12)])
    assert lines(*served(1, 2000, 2000), *served(2, 10, 10, slot=1)) == [(2, 6)]


def test_a_line_that_names_no_task_belongs_to_no_request():
    def said(what, kind, **numbers):
        return {"kind": kind, "what": what, "lines": [5], "slot": None, "task": None, "run": 0, "numbers": numbers}

    [one] = requests_of([said("request", "follows", n_tokens=9), said("full_reprocess", "read")])
    assert (one.name, one.kinds, {*one.numbers}) == ("line 5", {}, {"n_tokens"})
