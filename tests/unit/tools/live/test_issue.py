"""Bug reports: the affected versions, the results, and the fields that stay blank."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from cachesim.engines.registry import profiles
from cachesim.engines.shared.rule_set import Change
from cachesim.judging.find_change import ChangedFields, OutcomeChange, RequestHistory, RequestOutcome
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.export.affected_versions import (
    ANSWER,
    SoughtOutcome,
    affected_versions,
    newest_seen,
)
from cachesim.tools.live.llama_server.export.issue import ObservedRun, first_fault, issue
from cachesim.tools.live.llama_server.export.script import make_script

OLD, NEW, NEWEST, CURE = (f"llama_cpp@{name}" for name in ("b9936", "b9978", "b11549", "b11549-repaired"))
RIGHT, WRONG, UNKNOWN = (RequestOutcome(3, equal, 200) for equal in (True, False, None))
CREATE = Change("ckpt_create", "LC-CKPT-CREATE.CR8", "LC-CKPT-CREATE.CR10", "#25472")
BEHIND = Change("ckpt_restore", "LC-CKPT-RESTORE.RE4", "LC-CKPT-RESTORE.BEHIND", "")


def told(outcomes, turns=(), cures=(), sought=ANSWER):
    """Return the text on the affected versions of a history."""
    profiles()                                             # the rules are known once their engine is
    return "\n".join(affected_versions(RequestHistory(outcomes, [*turns], [*cures]), (CURE,), sought))


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


LOSS = SoughtOutcome(kept=100)
KEPT, LOST = (RequestOutcome(reused, True, 200) for reused in (100, 40))


def test_the_version_at_which_tokens_are_lost_is_named_with_both_numbers():
    first, second = "llama_cpp@b9231", "llama_cpp@b9518"
    turns = [OutcomeChange(OLD, NEW, KEPT, LOST, [ChangedFields((CREATE,), True)])]
    cures = [OutcomeChange(NEWEST, CURE, LOST, KEPT, [ChangedFields((BEHIND,), True)]),
             OutcomeChange(NEWEST, "llama_cpp@24035-v3", LOST, LOST)]  # fmt: skip
    outcomes = {first: LOST, second: KEPT, OLD: KEPT, NEW: LOST, NEWEST: LOST, CURE: KEPT}
    cause, last, cure, edit = told(outcomes, turns, cures, LOSS).splitlines()
    assert cause.index("100 tokens") < cause.index(OLD) < cause.index("40 tokens") < cause.index(NEW)
    assert CREATE.new in cause and NEWEST in last and "100 tokens" in cure and CURE in cure and edit.startswith("- ")


def test_tokens_lost_by_every_version_are_lost_in_the_oldest():
    first, last = told({"llama_cpp@b9518": None, OLD: LOST, NEW: LOST, CURE: KEPT}, sought=LOSS).splitlines()
    assert "40 tokens" in first and OLD in first and NEW in last


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


def wrong_script():
    return script("A5/B10/B[:3].C3/D300", "GA", parallel=1, ctx_size=256)


@cache
def ended_script():
    return make_script(load(corpus_files()["llama-repair-shift-without-layers"]), NEWEST)


def steps_of(text):
    return parts_of(text)["Problem description & steps to reproduce"]


def numbers_of(lines):
    """Return the integers of each result in a list of lines."""
    found = [line for line in lines if line[:2] in ("0.", "1.", "2.", "3.") and "`" not in line]
    return [[int(word.strip(",:")) for word in line.split() if word.strip(",:").isdigit()] for line in found]


def test_a_report_has_the_simulated_result_of_every_request():
    text = issue(wrong_script(), "echo 1\n")
    steps = steps_of(text)
    assert "    llama-server -m tiny-GA.gguf --port 8080 --slot-save-path /tmp/ -c 256 -np 1" in steps
    assert {"0. `A5`", "1. `B10`", "2. `B[:3].C3`", "3. `D300`", "echo 1"} <= {*steps}
    assert [found[:2] for found in numbers_of(steps)] == [[0, 5], [0, 10], [1, 5], [0, 0]]
    assert [line.endswith(": HTTP 400") for line in steps if line.startswith("3. cache_n")] == [True]
    assert "please fill in" in parts_of(text)["Name and Version"][0]


def test_a_report_of_a_loss_has_actual_and_expected_reuse_its_reason_and_its_first_version():
    case = make_script(load(corpus_files()["llama-24143-entry-removed-dense"]), NEWEST)
    text = issue(case, "echo 1\n")
    steps = steps_of(text)
    assert numbers_of(steps) == [[0, 100], [0, 70], [40, 25], [40, 72, 60], [100, 12]]
    assert any("tokens 40..99" in line and "LC-PC-LOAD.TAKE" in line for line in steps)
    assert "correct answer" not in text and "60 tokens" in text and "seconds" in text and "(predicted with" in text
    bad = "\n".join(parts_of(text)["First Bad Commit"])
    assert "40 tokens reused" in bad and "Fewer than 100" in bad and NEWEST in bad and "#24143" in bad
    assert first_fault(case).startswith(f"request 3 under {NEWEST}: 40 of 100 tokens reused; with #24143 100")


def test_a_loss_since_a_build_is_compared_with_the_wheel_of_a_build_before_it():
    case = make_script(load(corpus_files()["llama-18072-three-conversations-room-for-two"]), NEWEST)
    assert (case.loss.label, case.loss.mark) == ("b9713", "")
    assert case.loss.numbers == dict.fromkeys((3, 4, 5), (0, 450, 450))
    text = issue(case, "echo 1\n")
    assert "pip install xllamacpp==2026.6.9713" in text and "predicted" not in text
    assert "450 tokens reused at b9765" in text and "0 tokens reused at b9908" in text


def test_a_request_that_ends_the_process_is_reported_without_a_status():
    case = ended_script()
    assert [(one.died, one.status) for one in case.expected] == [(False, 200), (True, 0)]
    lines = [line for line in steps_of(issue(case, "x")) if line.startswith("1. cache_n")]
    assert len(lines) == 1 and "HTTP" not in lines[0] and "correct" not in lines[0]


def test_a_report_of_a_real_server_has_its_version_results_and_log():
    heard = ObservedRun("version: 1 (a)", ["0. right", "1. wrong"], ["a line of the log"])
    parts = parts_of(issue(ended_script(), "echo 1\n", heard, "a wheel"))
    assert (parts["Name and Version"], parts["GGML backends"]) == (["`version: 1 (a)`"], ["CPU"])
    steps = parts["Problem description & steps to reproduce"]
    assert {"0. right", "1. wrong"} <= {*steps} and any("a wheel" in line for line in steps)
    assert "a line of the log" in parts["Relevant log output"]


def test_the_fault_is_that_of_the_first_wrong_request():
    wrong = script("A5/B10/B[:3].C3/B[:3].D4", "GA", ctx_size=256, parallel=1)
    assert wrong.broken[0] == 2 and first_fault(wrong).startswith(f"request 2 under {NEWEST}: ")
    assert first_fault(script("A9")) == ""
