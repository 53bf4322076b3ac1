"""Sentences of a bug report about the affected versions and the cures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.export import issue
from cachesim.tools.live.llama_server.export.issue import _because, _came, _change, _edits, _first_bad, _named
from cachesim.tools.live.llama_server.export.script import make_script

RIGHT, WRONG, UNKNOWN = (RequestOutcome(3, equal, 200) for equal in (True, False, None))
STEP = ChangedFields((Change("min_step", "64", "256", "#1"),), True)
BOTH = ChangedFields((Change("pick", "R.1", "R.2", ""), Change("drop", "R.3", "R.4", "#2")), False)


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """Show texts without escapes, versions without builds, and changes with the build of their rule set."""
    monkeypatch.setattr(issue, "markdown_text", str)
    monkeypatch.setattr(issue, "build_of", lambda profile: "b9 of May" if profile == "x@9" else "")
    monkeypatch.setattr(issue, "build_with", lambda profile, change: "b7" if profile == "x@9" else "")


def sentences(course, *beside):
    return [*_first_bad(course, beside)]


def test_a_correct_answer_has_no_affected_version():
    assert sentences(None) == ["The answer is correct under this rule set."]


def test_the_last_change_to_a_wrong_answer_is_named_with_its_cause():
    turns = [OutcomeChange("x@1", "x@2", RIGHT, WRONG, [BOTH]), OutcomeChange("x@2", "x@3", WRONG, RIGHT, []),
             OutcomeChange("x@3", "x@9", RIGHT, WRONG, [STEP, BOTH])]  # fmt: skip
    course = RequestHistory({"x@1": RIGHT, "x@2": WRONG, "x@3": RIGHT, "x@9": WRONG, "x@new": WRONG}, turns)
    first, second = sentences(course, "x@new")
    assert first == ("By simulation of each version: correct at x@3, wrong at b9 of May (x@9), because of "
                     "min_step: 64 -> 256 (#1, in b7) or pick: R.1 -> R.2 (in b7) together with "
                     "drop: R.3 -> R.4 (#2, in b7).")  # fmt: skip
    assert second.startswith("Wrong up to b9 of May (x@9). ")


def test_a_fault_of_every_version_is_wrong_in_the_oldest_that_ran():
    course = RequestHistory({"x@0": None, "x@1": WRONG, "x@2": WRONG, "x@mine": RIGHT})
    first, second = sentences(course, "x@mine")
    assert first == "Wrong in the oldest version that the simulator knows with these options: x@1."
    assert second.startswith("Wrong up to x@2. ")
    assert sentences(RequestHistory({"x@1": None}))[0].endswith("with these options: ?.")
    assert sentences(RequestHistory({"x@1": UNKNOWN}))[1].startswith("Wrong up to ?. ")


@pytest.mark.parametrize(("was", "now", "is_cure"), [
    (WRONG, RIGHT, True), (None, RIGHT, True), (UNKNOWN, RIGHT, True), (RIGHT, RIGHT, False), (WRONG, WRONG, False),
    (WRONG, UNKNOWN, False), (WRONG, None, False),
])  # fmt: skip
def test_proposals_that_correct_the_answer_are_cures(was, now, is_cure):
    course = RequestHistory({"x@1": WRONG}, [], [OutcomeChange("x@1", "x@new", was, now, [STEP])])
    cures = ["Correct with the rules of x@new, because of min_step: 64 -> 256 (#1)."]
    assert sentences(course)[2:] == cures * is_cure


def test_changes_without_source_and_build_have_no_brackets():
    assert _change(BOTH.changes[0], "x@1") == "pick: R.1 -> R.2" and _because([]) == ""
    assert (_named("x@1"), _named("x@9")) == ("x@1", "b9 of May (x@9)")
    assert [*_edits([STEP, BOTH])] == []


@pytest.mark.parametrize(("fields", "text"), [
    ({}, "0. cache_n 3, evaluated 2: correct answer"), ({"equal": None}, "0. cache_n 3, evaluated 2: correct answer"),
    ({"equal": False, "fault": "it differs"}, "0. cache_n 3, evaluated 2: wrong answer: it differs"),
    ({"status": 400, "equal": False}, "0. cache_n 3, evaluated 2: HTTP 400"),
    ({"died": True, "status": 500}, "0. cache_n 3, evaluated 2: the process ends"),
])  # fmt: skip
def test_the_outcome_of_a_request(fields, text):
    one = type("Outcome", (), {"cache_n": 3, "prompt_n": 2, "equal": True, "fault": "", "died": False, "status": 200,
                               **fields})  # fmt: skip
    assert [*_came([one])] == [text]


@pytest.mark.parametrize(("shown", "file", "found"), [
    (("b9500", "b9713", "b9873"), "own.toml", ["Newest wheel with llama-server on which it was seen: b9873 "
                                      "(`pip install xllamacpp==2026.7.9873`)."]),
    ((), "own.toml", []), (("b9713",), "another.toml", []), (("b9713",), None, []),
])  # fmt: skip
def test_the_newest_wheel_on_which_a_bundled_scenario_was_seen(monkeypatch, shown, file, found):
    monkeypatch.setattr(issue, "corpus_files", lambda: {"own": "own.toml"})
    monkeypatch.setattr(issue, "real_builds", lambda name: SimpleNamespace(shown=shown))
    assert list(issue.newest_seen(SimpleNamespace(id="own", file=file))) == found


def test_the_source_of_each_rule_that_corrects_the_answer_is_named_once(monkeypatch):
    sources = {"R.2": SimpleNamespace(path="server.cpp", note="proposed here: erase them"),
               "R.3": SimpleNamespace(path="", note="text"), "R.4": None,
               "R.5": SimpleNamespace(path="cache.cpp", note="")}  # fmt: skip
    monkeypatch.setattr(issue, "RULES", dict.fromkeys(sources))
    rules = iter(sources)
    monkeypatch.setattr(issue, "about", lambda rule: SimpleNamespace(source=sources[next(rules)]))
    changes = [Change("pick", "R.1", name, "") for name in (*sources, "R.2", "R.9")]
    assert list(_edits([ChangedFields(tuple(changes), True)])) == ["server.cpp: erase them"]


@pytest.mark.parametrize(("lines", "text", "asks"), [
    (None, [], True), ([], [], True), (["a", "b"], ["a", "b"], False)])  # fmt: skip
def test_the_log_is_shown_or_asked_for(lines, text, asks):
    heard = None if lines is None else issue.ObservedRun("version: 1", [], lines)
    found = issue._log(heard)
    assert found[:3] == ["<details>", "<summary>Logs</summary>", ""] and found[4:6] == ["", "</details>"]
    assert [line for line in found[3].splitlines() if "```" not in line and line] == text
    assert found[6:] == (["", issue.BLANK.format("lines of the server's log, -lv 5, from the wrong request")] * asks)


def parts_of(text):
    """Return the parts of a report by their headings, without blank lines."""
    title, *parts = text.split("\n### ")
    named = {part.partition("\n")[0]: [line for line in part.splitlines()[1:] if line] for part in parts}
    return title.strip(), named


def test_a_report_has_the_command_the_requests_and_their_results():
    script = make_script(from_line("A9>r2/{save@0 f}/A.r", model="A", server={"parallel": 1}), "llama_cpp@b11549")
    title, parts = parts_of(issue.issue(script, "echo 1\n"))
    assert title == "Eval bug: <!-- please fill in: a title in your own words -->"
    assert parts["Name and Version"] == [issue.BLANK.format("llama-server --version")]
    assert parts["GGML backends"] == [issue.BLANK.format("backends")]
    assert parts["Models"] == ["A tiny model with random weights, architecture llama, layers A. The script below "
                               "writes it; with `MODELS=.` it keeps tiny-A.gguf in the current folder."]  # fmt: skip
    steps = parts["Problem description & steps to reproduce"]
    assert steps[1:7] == [
        "Command line:", "    llama-server -m tiny-A.gguf --port 8080 --slot-save-path /tmp/ -np 1",
        "Exact arithmetic: `-t 1 -tb 1 -fa off -ctk f32 -ctv f32`. Requests (the letter is a text, the number its "
        "tokens):", "0. `A9>r2`", "1. `save@0 f`", "2. `A.r`"]  # fmt: skip
    assert steps[7:11] == [
        "Actual results (from a simulation of this build):", "0. cache_n 0, evaluated 9: correct answer",
        "1. cache_n 0, evaluated 0: correct answer", "2. cache_n 10, evaluated 1: correct answer"]  # fmt: skip
    assert steps[12:] == ["<details><summary>Script: needs only llama-server and python3, exit status 1 if the fault "
                          "shows</summary>", "```sh", "echo 1", "```", "</details>"]  # fmt: skip
    assert parts["First Bad Commit"] == ["The answer is correct under this rule set."]


def test_a_report_of_a_real_server_has_its_version_and_results():
    script = make_script(from_line("A9>r2/A.r", model="A"), "llama_cpp@b11549")
    heard = issue.ObservedRun("version: 1 (a)", ["0. right", "1. wrong"], ["a line"])
    _, parts = parts_of(issue.issue(script, "echo 1\n", heard, "a wheel"))
    assert (parts["Name and Version"], parts["GGML backends"]) == (["`version: 1 (a)`"], ["CPU"])
    steps = parts["Problem description & steps to reproduce"]
    at = steps.index("Actual results:")
    assert steps[at + 1 : at + 3] == ["0. right", "1. wrong"] and "needs only a wheel and python3" in steps[at + 4]


def test_the_fault_and_its_history_are_those_of_the_first_wrong_request(monkeypatch):
    scenario = SimpleNamespace(engine="llama_cpp")
    expected = [SimpleNamespace(fault=text) for text in ("", "it differs", "it differs, too")]
    script = SimpleNamespace(broken=[1, 2], scenario=scenario, profile="x@9", expected=expected)
    monkeypatch.setattr(issue, "bisect", lambda one, engine, pairs, requests: {
        number: (one, engine.name, number) for number in requests})  # fmt: skip
    assert issue.first_fault(script) == "request 1 under x@9: wrong answer: it differs"
    assert issue._history(script) == (scenario, "llama_cpp", 1)
    script.broken = []
    assert issue.first_fault(script) == "" and issue._history(script) is None
