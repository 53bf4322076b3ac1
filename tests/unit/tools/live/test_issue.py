"""Bug reports: the affected versions, the results, and the fields that stay blank."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import profiles
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export.affected_versions import affected_versions, newest_seen
from cachesim.tools.live.llama_server.export.issue import ObservedRun, first_fault, issue
from cachesim.tools.live.llama_server.export.script import make_script

OLD, NEW, NEWEST, CURE = (f"llama_cpp@{name}" for name in ("b9936", "b9978", "b11549", "b11549-repaired"))
RIGHT, WRONG, UNKNOWN = (RequestOutcome(3, equal, 200) for equal in (True, False, None))
CREATE = Change("ckpt_create", "LC-CKPT-CREATE.CR8", "LC-CKPT-CREATE.CR10", "#25472")
BEHIND = Change("ckpt_restore", "LC-CKPT-RESTORE.RE4", "LC-CKPT-RESTORE.BEHIND", "")


def told(outcomes, turns=(), cures=()):
    """Return the text on the affected versions of a history."""
    profiles()                                             # the rules are known once their engine is
    return "\n".join(affected_versions(RequestHistory(outcomes, [*turns], [*cures]), (CURE,)))


def test_the_last_change_to_a_wrong_answer_is_named_with_its_cause_and_build():
    first, second = "llama_cpp@b9231", "llama_cpp@b9518"
    turns = [OutcomeChange(first, second, RIGHT, WRONG), OutcomeChange(second, OLD, WRONG, RIGHT),
             OutcomeChange(OLD, NEW, RIGHT, WRONG, [ChangedFields((CREATE,), True)])]  # fmt: skip
    text = told({first: RIGHT, second: WRONG, OLD: RIGHT, NEW: WRONG, NEWEST: RIGHT, CURE: WRONG}, turns)
    cause, last = text.splitlines()
    assert first not in text and cause.index(OLD) < cause.index(NEW) < cause.index(CREATE.old) < cause.index(CREATE.new)
    assert "#25472" in cause and "in b9978" in cause and NEW in last and NEWEST not in text and CURE not in text


def test_several_causes_are_all_named():
    both = [ChangedFields((CREATE, BEHIND), False), ChangedFields((CREATE,), True)]
    text = told({OLD: RIGHT, NEW: WRONG}, [OutcomeChange(OLD, NEW, RIGHT, WRONG, both)])
    assert (text.count(CREATE.new), text.count(BEHIND.new)) == (2, 1)


def test_a_fault_of_every_version_is_wrong_in_the_oldest_that_ran():
    first, last = told({"llama_cpp@b9518": None, OLD: WRONG, NEW: WRONG, NEWEST: UNKNOWN}).splitlines()
    assert OLD in first and "b9518" not in first and NEW in last


@pytest.mark.parametrize(("was", "now", "is_cure"), [
    (WRONG, RIGHT, True), (None, RIGHT, True), (UNKNOWN, RIGHT, True), (RIGHT, RIGHT, False), (WRONG, WRONG, False),
    (WRONG, UNKNOWN, False), (WRONG, None, False),
])  # fmt: skip
def test_a_proposal_that_corrects_the_answer_is_named_with_its_change_to_the_source(was, now, is_cure):
    causes = [ChangedFields((BEHIND,), True), ChangedFields((BEHIND, CREATE), False)]
    text = told({OLD: WRONG}, [], [OutcomeChange(NEWEST, CURE, was, now, causes)])
    assert (CURE in text) is (BEHIND.new in text) is is_cure
    assert text.count("\n- tools/server/server-context.cpp: ") == is_cure


def test_a_correct_answer_has_no_affected_version():
    [sentence] = affected_versions(None, ())
    assert "@" not in sentence


def test_the_newest_wheel_on_which_a_bundled_scenario_was_seen():
    scenario = load(corpus_files()["llama-window-checkpoint-erosion"])
    [sentence] = newest_seen(scenario)
    assert "b11549" in sentence and "xllamacpp==2026.10.11549" in sentence
    assert [*newest_seen(replace(scenario, file="mine.toml"))] == [*newest_seen(from_line("A5"))] == []


def parts_of(text):
    """Return the parts of a report by their headings, as lines that are not blank."""
    _, *parts = text.split("\n### ")
    return {part.partition("\n")[0]: [line for line in part.splitlines()[1:] if line] for part in parts}


def script(line, model="A", **server):
    return make_script(from_line(line, model=model, server=server), NEWEST)


def test_a_report_has_the_simulated_result_of_every_request():
    parts = parts_of(issue(script("A9>r2/A.r/B900", parallel=1, ctx_size=512), "echo 1\n"))
    steps = parts["Problem description & steps to reproduce"]
    assert "    llama-server -m tiny-A.gguf --port 8080 --slot-save-path /tmp/ -c 512 -np 1" in steps
    assert {"0. `A9>r2`", "1. `A.r`", "2. `B900`", "echo 1"} <= {*steps}
    found = [line for line in steps if line[:2] in ("0.", "1.", "2.") and "`" not in line]
    assert [[int(word.strip(",:")) for word in line.split() if word.strip(",:").isdigit()] for line in found] == [
        [0, 9], [10, 1], [0, 0, 400]]  # fmt: skip
    assert "please fill in" in parts["Name and Version"][0]


def test_a_request_that_ends_the_process_is_reported_without_a_status():
    case = make_script(load(corpus_files()["llama-repair-shift-without-layers"]), NEWEST)
    assert [(one.died, one.status) for one in case.expected] == [(False, 200), (True, 0)]
    steps = parts_of(issue(replace(case, expected=tuple(one._replace(equal=None) for one in case.expected)), "x"))
    lines = [line for line in steps["Problem description & steps to reproduce"] if line.startswith("1. cache_n")]
    assert len(lines) == 1 and "HTTP" not in lines[0] and "correct" not in lines[0]


def test_a_report_of_a_real_server_has_its_version_results_and_log():
    heard = ObservedRun("version: 1 (a)", ["0. right", "1. wrong"], ["a line of the log"])
    parts = parts_of(issue(script("A9>r2/A.r"), "echo 1\n", heard, "a wheel"))
    assert (parts["Name and Version"], parts["GGML backends"]) == (["`version: 1 (a)`"], ["CPU"])
    steps = parts["Problem description & steps to reproduce"]
    assert {"0. right", "1. wrong"} <= {*steps} and any("a wheel" in line for line in steps)
    assert "a line of the log" in parts["Relevant log output"]


def test_the_fault_is_that_of_the_first_wrong_request():
    wrong = script("A5/B10/B[:3].C3/B[:3].D4", "GGGA", ctx_size=1024, parallel=1)
    assert wrong.broken[0] == 2 and first_fault(wrong).startswith(f"request 2 under {NEWEST}: ")
    assert first_fault(script("A9")) == ""
