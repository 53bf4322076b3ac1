"""Exit codes of replays, and the options of the command."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
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
