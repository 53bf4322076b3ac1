"""Tests of the report of a run: verdict first, then the sources of the tokens of each request."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from rich.console import Group
from rich.text import Text

from cachesim.base.console import as_text
from cachesim.base.layout import ROOMY
from cachesim.judging.foreign_reads import ForeignContent
from cachesim.judging.judgement import SlotAtLaunch
from cachesim.judging.run_data import run_data
from cachesim.tools.run.run_table import (
    MOST,
    _table,
    as_typed,
    block_of_case,
    closing_line,
    failure_block,
    failures_report,
    mismatch_text,
    not_run_line,
    origins,
    predicted_lines,
    report_of_groups,
    run_report,
    short_verdict,
    state_lines,
)
from tests.unit.tools.run.made import BROKEN, UNDECIDED, judgement, run, shown
from tests.unit.tools.table_columns import columns

STORED = SimpleNamespace(kind="entry", owner=1, resume=7, length=7, tokens=())


def rows(*requests, verbose=0, **more):
    return shown(run_report(run_data(run(*requests, **more)), verbose=verbose))


def test_every_column_shows_its_own_count():
    lines = rows(judgement(cache_n=3, prompt_n=7, deciding="R.1"), judgement(cache_n=4, prompt_n=6, source="entry"))
    assert lines[2].split() == ["#", "request", "prompt", "kept", "restored", "loaded", "evaluated", "reason"]
    assert [line.split()[:7] for line in lines[3:5]] == [
        ["0", "A", "10", "3", "·", "·", "7"], ["1", "B", "10", "·", "·", "4", "6"],
    ]  # fmt: skip


def test_the_columns_add_up_to_the_prompt():
    made = run(judgement(cache_n=3, prompt_n=7), judgement(cache_n=4, prompt_n=6, source="block"),
               judgement(cache_n=5, prompt_n=5, source="checkpoint"))  # fmt: skip
    assert [origins(one) for one in run_data(made)["requests"]] == [(3, 0, 0, 7), (0, 0, 4, 6), (0, 5, 0, 5)]


@pytest.mark.parametrize(("verdict", "fields", "word", "answer"), [
    (BROKEN, {"died": True, "status": 500}, "SERVER DIED", "server died"),
    (BROKEN, {"status": 200}, "WRONG OUTPUT", "wrong answer"),
    (UNDECIDED, {"status": 400, "refused": True}, "REFUSED (400)", "refused (400)"),
    (UNDECIDED, {"status": 500, "refused": True}, "REFUSED (500)", "refused (500)"),
    (UNDECIDED, {}, "UNDECIDED", "undecided"),
])  # fmt: skip
def test_the_verdict_comes_first_and_stands_in_the_row(verdict, fields, word, answer):
    lines = rows(judgement(), judgement(verdict, **fields))
    assert lines[1] == f"{answer} at request 1, 0 tokens re-evaluated"
    [row] = [line for line in lines if line.startswith("1 B")]
    assert short_verdict(word) in row


def test_a_right_answer_that_leaves_something_wrong_behind():
    assert rows(judgement(state=BROKEN))[1] == "corrupt state left behind at request 0, 0 tokens re-evaluated"


def test_an_answer_that_is_right_needs_no_column_for_it():
    assert "answer" not in rows(judgement())[2] and "answer" in rows(judgement(BROKEN))[3]


def test_what_was_read_instead_stands_before_the_table():
    lines = rows(judgement(), judgement(BROKEN), reads={1: [ForeignContent("state", 0, 9, 9, 0, 12)]})
    text = "request 1 reads the recurrent state after 12 tokens of request 0 in place of its own"
    assert " ".join(lines[3:5]) == f"{text} after 9 tokens"


def test_the_reason_of_a_request():
    cold = judgement(prompt_n=10)
    cold.slot = SlotAtLaunch(0, 0)
    hit = judgement(cache_n=4, prompt_n=6)
    hit.slot = SlotAtLaunch(4, 4)
    assert [line.split(maxsplit=7)[7] for line in rows(cold, hit)[3:5]] == ["empty slot", "extends the slot"]


def test_a_loss_at_the_request_itself_has_no_other_request():
    lines = rows(judgement(charges=[(1, 3, "erased", "R.1", -1, "checkpoint")]),
                 judgement(charges=[(1, 2, "evicted", "R.2", 0, "entry")]))  # fmt: skip
    assert "request 1: 3 tokens re-evaluated: checkpoint erased (R.1)" in lines
    assert "request 1: 2 tokens re-evaluated: entry evicted at request 0 (R.2)" in lines


def test_a_corrupt_object_is_told_once_where_it_first_shows():
    armed = [(STORED, BROKEN)]
    lines = rows(judgement(), judgement(armed=armed), judgement(armed=armed))
    told = [line for line in lines if "corrupt" in line]
    assert len(told) == 1
    assert told[0].startswith("after request 1: entry of 7 tokens (of 1) is corrupt, not used yet")


def test_of_many_corrupt_objects_only_the_first_unless_more_is_wanted():
    armed = [(SimpleNamespace(kind="entry", owner=i, resume=7, length=7, tokens=()), BROKEN) for i in range(5)]
    found = [sum("is corrupt" in line for line in rows(judgement(armed=armed), verbose=v)) for v in (0, 1)]
    assert found == [3, 5] and "and 2 more corrupt objects (-v)" in rows(judgement(armed=armed))


@pytest.mark.parametrize(("requests", "told", "met", "text"), [
    ([judgement()], [], True, "correct answer, 0 tokens re-evaluated (as expected)"),
    ([judgement(), judgement()], [], None, "correct answers, 0 tokens re-evaluated"),
    ([judgement(BROKEN), judgement(BROKEN)], [], True,
     "wrong answer at requests 0 and 1, 0 tokens re-evaluated (known bug, as expected)"),
    ([judgement(BROKEN)], [], False, "wrong answer at request 0, 0 tokens re-evaluated, NOT as expected"),
    ([judgement(UNDECIDED), judgement(BROKEN)], [], None,
     "wrong answer at request 1; undecided at request 0, 0 tokens re-evaluated"),
])  # fmt: skip
def test_the_verdict_of_a_run(requests, told, met, text):
    data = {**run_data(run(*requests, told=told)), "as_expected": met}
    assert shown(run_report(data))[1] == text


def test_title_and_why():
    made = run(judgement())
    data = {**run_data(made), "scenario": "a", "title": "the title", "why": "because"}
    assert shown(run_report(data))[1] == "the title" and "because" not in shown(run_report(data))
    assert shown(run_report(data, verbose=1))[1:3] == ["the title", "because"]


def of_runs(*runs, failed=0):
    """(text, colour) of the closing line of runs, each (holds, as expected)."""
    line = closing_line([{"holds": holds, "as_expected": met} for holds, met in runs], failed)
    return line.plain, str(line.style)


@pytest.mark.parametrize(("runs", "failed", "text", "colour"), [
    ([(True, True)], 0, "1 run: 1 OK, 0 wrong, 0 undecided; 1 matches expectations, 0 differ", "bold green"),
    ([(True, None)] * 2, 0, "2 runs: 2 OK, 0 wrong, 0 undecided", "bold green"),
    ([(True, None), (False, True)], 0, "1 wrong", "bold yellow"),
    ([(True, None), (None, True)], 0, "1 undecided", "bold yellow"),
    ([(True, False)], 0, "0 match expectations, 1 differs", "bold red"),
    ([(True, True)], 2, "; 2 not run", "bold red"),
])  # fmt: skip
def test_the_closing_line_is_green_only_where_all_is_well(runs, failed, text, colour):
    line = of_runs(*runs, failed=failed)
    assert text in line[0] and line[1] == colour


def test_rule_sets_with_equal_outcomes_share_a_block_below_one_title():
    one = {**run_data(run(judgement())), "scenario": "a", "title": "the title"}
    same, other = {**one, "profile": "llama_cpp@b1"}, {**one, "profile": "llama_cpp@b2", "holds": False}
    lines = shown(run_report(one, other, same, legend=True))
    assert lines[:3] == ["a  GGGA", "the title", f"{one['profile']} (same under b1)"] and "llama_cpp@b2" in lines
    assert [lines.count(text) for text in ("the title", "correct answer, 0 tokens re-evaluated")] == [1, 2]
    assert sum(line.startswith("kept in slot") for line in lines) == 1
    assert shown(run_report(one, same))[0] == f"a  GGGA  {one['profile']} (same under b1)"


def test_flags_stand_once_unless_they_differ():
    one = run_data(run(judgement()))
    other = {**one, "profile": "llama_cpp@b2", "holds": False}
    assert as_text(run_report(one, other)).count("flags: ") == 1
    flags = {"default": ["-b 1"], "set": [], "derived": []}
    assert as_text(run_report(one, {**other, "flags": flags})).count("flags: ") == 2


def test_rule_sets_of_several_engines_have_a_line_each_and_a_failure_its_block():
    good = run_data(run(judgement(), judgement()))
    other = run_data(run(judgement(), judgement(BROKEN, status=200), profile="mlx_lm@0.32.2"))
    lines = shown(run_report(good, other))
    assert lines[0] == "llama_cpp@b10587: correct answers, 0 tokens re-evaluated"
    assert lines[1].startswith("mlx_lm@0.32.2") and any("wrong answer at request 1" in line for line in lines[1:3])
    assert not any(line.startswith("# request") for line in lines[:1])
    assert [line for line in shown(run_report(good, other, verbose=1)) if line.startswith("# ")]


@pytest.mark.parametrize(("request_number", "text"), [
    (1, "request 1: reused is 3, the file expects 4"), (0, "request 0: reused is 3, the file expects 4"),
    (-1, "reused is 3, the file expects 4"),
])  # fmt: skip
def test_a_number_that_differs_from_the_file_is_named_with_both_values(request_number, text):
    assert mismatch_text({"request": request_number, "what": "reused", "got": 3, "expected": 4}) == text
    data = {**run_data(run(judgement())), "mismatches": [{"request": 1, "what": "x", "got": 3, "expected": 4}]}
    assert "request 1: x is 3, the file expects 4" in shown(run_report(data))


@pytest.mark.parametrize(("first", "in_newest", "where"), [
    ("b1", True, "from b1 on"), ("b1", False, "from b1 up to b9"), ("", False, "up to b9"),
    ("", True, "in every version with these features"),
])  # fmt: skip
def test_the_versions_with_a_bug(first, in_newest, where):
    life = {"request": 2, "first": first, "last": "b9", "in_newest": in_newest}
    lines = shown(run_report({**run_data(run(judgement())), "lives": [life]}))
    assert f"the bug at request 2 exists {where}" in lines


@pytest.mark.parametrize(("not_run", "text"), [
    (1, "not run: request 2 (limit)"), (2, "not run: requests 2 to 3 (limit)"), (3, "not run: requests 2 to 4 (limit)"),
])  # fmt: skip
def test_requests_beyond_a_limit_are_named(not_run, text):
    assert not_run_line({"requests": [{}, {}], "not_run": not_run, "limit": "limit"}) == text


def test_predicted_outcomes_are_grouped_by_rule_and_case():
    first = {"what": "verdict", "rule": "R.1", "case": "a", "request": 1}
    found = [first, {**first, "request": 3}, {**first, "what": "charge", "request": 4}]
    lines = shown(Group(*predicted_lines(found)))
    whole = " ".join(lines)
    assert whole.startswith("requests 1, 3, the wrong answer: ")
    assert whole.count("(R.1, case 'a') request 4, the re-evaluated tokens: ") == 1 and whole.count("case 'a'") == 2


STATE = {"i": 2, "died": False, "id_slot": 1, "slot_tokens": None, "checkpoints": [], "entries": 0, "stored_mib": None,
         "shifts": [], "preemptions": 0, "draft_n": 0, "draft_n_accepted": 0, "completions": 1,
         "uncounted": 0}  # fmt: skip


@pytest.mark.parametrize(("fields", "text"), [
    ({"slot_tokens": 0}, "slot 1 holds 0 tokens"), ({"slot_tokens": 7, "died": True}, None), ({}, None),
    ({"slot_tokens": 1, "checkpoints": [3]}, "slot 1 holds 1 token; 1 checkpoint at 3"),
    ({"checkpoints": [3, 4]}, "2 stored prefixes of 3, 4 tokens"),
    ({"entries": 1, "stored_mib": 0.5}, "prompt cache: 1 entry of 0.5 MiB"),
    ({"entries": 2}, "prompt cache: 2 entries"),
    ({"shifts": [(90, 4, 45)]}, "context shift at 90: kept 4, dropped 45"),
    ({"preemptions": 1}, "1 preemption of running requests"),
    ({"draft_n": 5, "draft_n_accepted": 2}, "drafts: 2 of 5 tokens accepted"), ({"completions": 2}, "2 completions"),
])  # fmt: skip
def test_the_state_after_a_request_has_only_what_is_there(fields, text):
    state = {**run_data(run(judgement()))["requests"][0], **STATE, **fields}
    assert shown(Group(*state_lines([state]))) == ([] if text is None else [f"after request 2: {text}"])


def test_many_checkpoints_are_cut():
    state = {**run_data(run(judgement()))["requests"][0], **STATE}
    whole, cut_off = (" ".join(shown(Group(*state_lines([{**state, "checkpoints": [*range(number)]}]))))
                      for number in (MOST, MOST + 1))  # fmt: skip
    assert ".." not in whole and cut_off.endswith("11, .. tokens") and "13 stored prefixes" in cut_off


def test_a_case_that_cannot_run_again_has_its_causes_and_its_command():
    lines = as_text(block_of_case({"failure": None, "causes": ["it crashed"], "command": "cachesim why x 1"}))
    assert lines.splitlines() == ["  it crashed", "cachesim why x 1"]
    assert as_text(block_of_case({"failure": None, "command": "c"})).splitlines() == ["c"]


FAILURE = {"causes": [{"request": 0, "text": "request 0 fills", "rule": "R.1"},
                      {"request": 2, "text": "request 2 keeps", "rule": ""},
                      {"request": 2, "text": "reads it", "rule": "R.2"}],
           "hence": "it differs", "source": "https://a.org/b#L1", "command": f"cachesim run '{'A' * 90}' -p x@1"}


def test_an_explanation_has_its_causes_their_rules_the_source_and_an_uncut_command():
    lines = ["Let   request 0 fills (R.1)", "Then  request 2 keeps", "        reads it (R.2)", "Hence it differs",
             "source https://a.org/b#L1", FAILURE["command"]]  # fmt: skip
    for block in (failure_block(FAILURE), block_of_case({"failure": FAILURE, "causes": ["old"], "command": "other"})):
        assert [line.rstrip() for line in as_text(block).splitlines()] == lines
    first = {**FAILURE, "causes": FAILURE["causes"][:1], "source": ""}
    assert [line.rstrip() for line in as_text(failure_block(first)).splitlines()] == [lines[0], lines[3], lines[5]]


def test_a_rule_set_of_several_engines_has_its_verdict_and_causes_or_the_whole_block():
    charges = [(0, 3, "erased", "R.1", 0, "checkpoint")]
    plain, lossy = run_data(run(judgement(prompt_n=10))), run_data(run(judgement(charges=charges, prompt_n=10)))
    other = {**lossy, "profile": "vllm@0.33.0"}
    assert shown(run_report(plain, other)) == [
        "llama_cpp@b10587: correct answer, 0 tokens re-evaluated",
        "vllm@0.33.0: correct answer, 3 tokens re-evaluated",
        "request 0: 3 tokens re-evaluated: checkpoint erased at request 0 (R.1)"]  # fmt: skip
    failed = {**other, "failure": FAILURE}
    lines = shown(run_report(plain, failed))
    assert lines[1] == "vllm@0.33.0" and "Let   request 0 fills (R.1)" in lines and FAILURE["command"] in lines
    stopped = {**other, "not_run": 2, "limit": "tokens"}
    assert shown(run_report(plain, stopped))[1] == "vllm@0.33.0"


def test_failures_are_explained_once_for_equal_outcomes_and_not_without_one():
    right = run_data(run(judgement(prompt_n=10)))
    failed = {**right, "failure": FAILURE}
    assert failures_report([right, right]) is None and failures_report([]) is None
    once = as_text(failures_report([right, failed, {**failed, "profile": "llama_cpp@b9518"}]))
    assert once == as_text(failure_block(FAILURE))
    other = {**failed, "failure": {**FAILURE, "hence": "it ends"}, "kept": 1}
    assert as_text(failures_report([failed, {**other, "verdict": "x"}])).count("source https://a.org/b#L1") == 2


def test_a_report_has_neither_titles_nor_empty_lines_without_any():
    data = {**run_data(run(judgement(prompt_n=10))), "titles": {}, "why": ""}
    table = ["# request prompt kept restored loaded evaluated reason",
             "0 A           10    ·        ·      ·        10"]  # fmt: skip
    head = ["try  GGGA  llama_cpp@b10587", "correct answer, 0 tokens re-evaluated"]
    assert shown(run_report(data)) == [*head, *table]
    titled = {**data, "titles": {"A": "the chat"}, "why": "because\nof it"}
    assert shown(run_report(titled))[:3] == [head[0], "A the chat", head[1]]
    assert shown(run_report(titled, verbose=1))[:4] == [head[0], "A the chat", "because of it", head[1]]


def test_the_verdict_about_one_of_several_engines_names_some_corrupt_objects():
    armed = [(SimpleNamespace(kind="entry", owner=i, resume=7, length=7, tokens=()), BROKEN) for i in range(5)]
    plain, corrupt = run_data(run(judgement())), run_data(run(judgement(armed=armed)))
    lines = shown(run_report(plain, {**corrupt, "profile": "vllm@0.33.0"}))
    assert sum("is corrupt" in line for line in lines) == 3 and "and 2 more corrupt objects (-v)" in lines


def test_a_group_has_the_flags_of_its_runs_unless_all_have_the_same():
    def block(data):
        return Group(f"block of {data['profile']}")

    first = {**run_data(run(judgement())), "profile": "llama_cpp@b9518"}
    same, other = {**first, "profile": "llama_cpp@b10587"}, {**first, "profile": "llama_cpp@b8672", "flags": {
        "default": [], "set": ["-c 64"], "derived": []}}  # fmt: skip
    top, common = Text("top"), [Text("about it")]
    lines = as_text(report_of_groups(top, common, [[first, same]], block)).splitlines()
    assert (lines[0], lines[-2:]) == ("top  llama_cpp@b9518 (same under b10587)",
                                      ["about it", "block of llama_cpp@b9518"])  # fmt: skip
    lines = as_text(report_of_groups(top, common, [[first], [other]], block)).splitlines()
    assert lines[:3] == ["top", "about it", "llama_cpp@b9518"] and lines[3].startswith("flags: ")
    assert lines[-4:] == ["", "llama_cpp@b8672", "set: -c 64", "block of llama_cpp@b8672"]
    lines = as_text(report_of_groups(top, common, [[first], [same]], block, is_answer=True)).splitlines()
    assert lines[:6] == ["top", "llama_cpp@b9518", "block of llama_cpp@b9518", "", "llama_cpp@b10587",
                         "block of llama_cpp@b10587"] and lines[-1] == "about it"  # fmt: skip


@pytest.mark.parametrize(("rung", "mark"), [("bits", " [bits]"), ("argmax", " [argmax]"), ("rows", ""), ("", "")])
def test_equal_faults_share_a_line_with_what_differs_in_the_output(rung, mark):
    data = run_data(run(judgement(BROKEN), judgement(), judgement(BROKEN)))
    for request in data["requests"]:
        request |= {"fault": "it differs", "rung": rung}
    assert f"request 0, 2: it differs{mark}" in shown(run_report(data))
    data["requests"][2]["rung"] = "other"
    lines = shown(run_report(data))
    assert lines.index("request 2: it differs") == lines.index(f"request 0: it differs{mark}") + 1


def test_a_line_to_copy_is_never_wrapped_and_never_cut():
    line = as_typed("word " * 40, "bold")
    assert (line.no_wrap, line.overflow, line.style) == (True, "ignore", "bold")
    assert line.plain == "word " * 40 and as_typed("x").style == ""


def test_numbers_are_aligned_and_requests_wrap_anywhere():
    numbers = [(name, "number") for name in ("prompt", "kept", "restored", "loaded", "evaluated")]
    names = [("#", "number"), ("request", "folded 7"), *numbers]
    right, wrong = ([run_data(run(one))["requests"][0]] for one in (judgement(), judgement(BROKEN)))
    assert columns(_table(right, 80)) == [*names, ("reason", "text")]
    assert columns(_table(wrong, 80)) == [*names, ("answer", "text"), ("reason", "text")]
    assert columns(_table(right, 200)) == [*names, ("reason", "text"), ("decided by", "whole")]
    roomy = _table([{**right[0], "rule": "R.1"}], ROOMY).columns[-1]
    assert (roomy.header, [*map(str, roomy.cells)]) == ("decided by", ["R.1"])
    assert _table(right, 200).padding == (0, 2, 0, 0) and _table(right, 80).padding == (0, 1, 0, 0)


def test_the_words_of_an_explanation_are_never_wrapped_and_its_sentences_anywhere():
    made = {"causes": [{"text": "t", "rule": "", "request": 0}], "hence": "h", "source": "s", "command": "c"}
    table, source, command = failure_block(made).renderables
    assert columns(table) == [("", "whole"), ("", "folded")] and table.padding == (0, 1, 0, 0)
    assert (source.plain, source.style, command.plain, command.style) == ("source s", "dim", "c", "bold")


def test_what_was_read_instead_is_indented_below_its_fault():
    made = run(judgement(BROKEN), reads={0: [ForeignContent("state", 0, 9, 9, 0, 12)]})
    lines = as_text(run_report(run_data(made))).splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  request 0: "))
    assert lines[at + 1].startswith("    request 0 reads the recurrent state")


def test_a_failure_of_one_of_several_engines_has_no_more_than_one_of_a_single_engine():
    armed = [(SimpleNamespace(kind="entry", owner=i, resume=7, length=7, tokens=()), BROKEN) for i in range(5)]
    failed = {**run_data(run(judgement(armed=armed))), "failure": FAILURE}
    lines = shown(run_report(run_data(run(judgement())), {**failed, "profile": "vllm@0.33.0"}))
    assert "Let   request 0 fills (R.1)" in lines
    assert not any("is corrupt" in line or line.startswith("after request") for line in lines)


@pytest.mark.parametrize(("letters", "how", "shown"), [
    (60, "", "x" * 60), (61, "", f"{'x' * 59}…"), (58, "together", f"+ {'x' * 58}"), (59, "together", f"+ {'x' * 57}…"),
])  # fmt: skip
def test_a_long_prompt_is_shortened_to_sixty_characters(letters, how, shown):
    request = {**run_data(run(judgement()))["requests"][0], "text": "x" * letters, "how": how}
    assert [str(cell) for cell in _table([request], 80).columns[1].cells] == [shown]
