"""Exit codes of replays, and the options of the command."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.base.errors import BadInput
from cachesim.base.pool import CompletedItem, KilledItem
from cachesim.tools.replay import command
from cachesim.tools.replay.command import BAD, FAULT, _code, add_arguments
from cachesim.tools.replay.report import grouped_report

GOOD = {"file": "a.json", "profile": "p", "scope": "in", "why": "", "steps": 4, "steps_agree": 4, "steps_undecided": 0,
        "events": 9, "events_agree": 9, "first_difference": None, "verdicts_agree": None, "broken": [],
        "not_compared": []}  # fmt: skip


@pytest.mark.parametrize("fields, code", [
    ({}, exits.HOLDS), ({"steps_agree": 3}, exits.BROKEN), ({"steps_agree": 3, "steps_undecided": 1}, exits.UNDECIDED),
    ({"verdicts_agree": 4}, exits.HOLDS), ({"verdicts_agree": 3}, exits.BROKEN),
    ({"verdicts_agree": 3, "steps_agree": 3, "steps_undecided": 1}, exits.UNDECIDED),
    ({"steps": 0, "steps_agree": 0}, exits.UNDECIDED),
    ({"scope": BAD}, exits.BAD_INPUT),
    ({"scope": FAULT}, exits.CRASH),
])  # fmt: skip
def test_a_trace_has_an_exit_code(fields, code):
    assert _code({**GOOD, **fields}) == code


def text(*traces):
    return as_text(grouped_report([{**GOOD, **one} for one in traces], "profile", lambda trace: trace["profile"]))


def test_reasons_of_traces_out_of_scope_are_printed_only_if_all_are():
    out = {"scope": "out", "why": "another engine", "steps_agree": 0, "steps_undecided": 4}
    assert text(out, out).count("another engine") == 1 and "another engine" not in text(out, {})


def test_ten_differences_are_named_and_the_others_counted():
    found = text(*({"file": f"{n}.json", "first_difference": "step 1", "steps_agree": 3} for n in range(12)))
    assert found.count("step 1") == 10 and "and 2 more files" in found
    assert "more files" not in text(*({"first_difference": "step 1"} for _ in range(10)))
    assert "recorded, not compared: a, b" in text({"not_compared": ["b"]}, {"not_compared": ["a", "b"]})


def test_the_command_takes_pictures():
    parser = ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["a.json", "--svg", "a.svg"]).svg == "a.svg"


def replayed(file, mode):
    """Return the data of a replay: files are named after what becomes of them."""
    if file.stem == "bad":
        raise BadInput("no trace")
    if file.stem == "crash":
        raise ValueError("it")
    return {**GOOD, "file": file.name, "why": mode}


def test_a_file_that_cannot_be_replayed_has_the_reason_in_its_result(monkeypatch):
    monkeypatch.setattr(command, "replay_file", replayed)
    assert command.replay_one((Path("a.json"), "exact"))["why"] == "exact"
    bad, crash = (command.replay_one((Path(name), "exact")) for name in ("bad.json", "crash.json"))
    assert (bad["scope"], bad["why"], bad["file"], bad["steps"]) == (BAD, "bad.json: no trace", "bad.json", 0)
    assert (crash["scope"], crash["why"]) == (FAULT, "crash.json: ValueError: it (a fault of cachesim)")


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_results_have_the_order_of_their_files_and_failures_are_printed(monkeypatch, capsys, is_interrupted):
    files = [Path(f"{name}.json") for name in ("a", "bad", "killed", "b")]

    def finished(work, jobs, processes):
        assert [file for file, _ in jobs] == files and processes == 3
        for number in (3, 1, 2, 0):
            if is_interrupted and number == 0:
                raise KeyboardInterrupt
            yield CompletedItem(number, jobs[number], KilledItem("killed by signal 9") if number == 2 else
                                work(jobs[number]))  # fmt: skip

    monkeypatch.setattr(command, "replay_file", replayed)
    monkeypatch.setattr(command, "finished", finished)
    monkeypatch.setattr(command, "progress", lambda found, *_: found)
    found, ended = command.replay_all(files, "exact", 3)
    assert [one["file"] for one in found] == [*["a.json"] * (not is_interrupted), "bad.json", "killed.json", "b.json"]
    assert isinstance(ended, KeyboardInterrupt) is is_interrupted and found[-2]["scope"] == FAULT
    assert capsys.readouterr().err.splitlines() == [
        "cachesim: bad.json: no trace", "cachesim: killed.json: killed by signal 9, twice (a fault of cachesim)"]
