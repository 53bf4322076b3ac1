"""Tests of the saved tokens of a log: the number is that of a run with the changing text at the end."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from cachesim.cli.main import main
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.saved_tokens import saved_tokens
from cachesim.tools.server_logs.facts.proven_range import ProvenRange
from cachesim.tools.server_logs.import_log import rebuild_log
from cachesim.tools.server_logs.rebuild.assumed_history import (
    CHANGED,
    EXCLUDED,
    repair_case,
)
from tests.unit.tools.server_logs.simulated_log import dated_line, evaluated, simulated, simulated_log

DATE = CHANGED[0]


def imported(tmp_path, line, model="GGGA", cut=slice(None), **server):
    """Return the import of the log of a line, or of some lines of the log."""
    log = tmp_path / "server.log"
    lines = simulated_log(line, model, 4, **server).splitlines(keepends=True)
    log.write_text("".join(lines[cut]), "utf-8")
    return rebuild_log(log)


@pytest.mark.long
@pytest.mark.parametrize("model", ["GGGA", "S"])
def test_the_number_is_that_of_a_run_with_the_date_at_the_end(tmp_path, model):
    """Four turns, a system prompt of 6,000 tokens with a date at its token 31: 93 tokens of common prefixes are
    evaluated again, and 19,000 are lost."""
    found = imported(tmp_path, dated_line(DATE, False), model)
    saved = saved_tokens(repair_case(found.found))
    before, after = evaluated(dated_line(DATE, False), model), evaluated(dated_line(DATE, True), model)
    assert (saved["evaluated"], saved["saved"]) == (before, before - after) and before - after > 19_000
    assert saved["changes"][0] == "changing part last" and "after token 31" in saved["assumes"]
    assert "requests 1, 2, 3" in saved["assumes"]


@pytest.mark.long
@pytest.mark.parametrize(("model", "date"), [("GGGA", 64), ("A", 1)])
def test_the_range_contains_the_numbers_of_other_dates(tmp_path, model, date):
    saved = saved_tokens(repair_case(imported(tmp_path, dated_line(date, False), model).found))
    own = evaluated(dated_line(date, False), model) - evaluated(dated_line(date, True), model)
    assert saved["lowest"] <= own <= saved["highest"]


@pytest.mark.long
def test_the_assumed_line_evaluates_the_same_tokens(tmp_path):
    found = imported(tmp_path, dated_line(DATE, False)).found
    case = repair_case(found)
    assert case.scenario.steps != found.scenario.steps
    own = [one.answer.prompt_n for one in simulated(dated_line(DATE, False)).requests]
    assert [row.logged.prompt_n for row in found.requests] == own
    for old, new in pairwise(case.scenario.steps):
        assert new.request.prompt[31 + DATE :][: 5000] == old.request.prompt[31 + DATE :][: 5000]


@pytest.mark.long
def test_the_report_and_json_begin_with_it(tmp_path, capsys):
    imported(tmp_path, dated_line(DATE, False))
    log = str(tmp_path / "server.log")
    assert main(["import", log]) == 0
    lines = " ".join(capsys.readouterr().out.split())
    own = evaluated(dated_line(DATE, False)) - evaluated(dated_line(DATE, True))
    assert f"Simulated: another client would have saved {own:,} of 27,280 evaluated tokens (71%): put the" in lines
    assert "holds only if requests 1, 2, 3 differ from the earlier prompt only in 8 tokens after token 31" in lines
    assert lines.index("would have saved") < lines.index("93 of them re-evaluated")
    main(["advise", log])
    text = " ".join(capsys.readouterr().out.split())
    assert f"27,280 -> {27_280 - own:,} tokens" in text and "client hold only if requests 1, 2, 3 differ" in text


@pytest.mark.long
def test_no_number_without_the_whole_conversation(tmp_path):
    """The slot held something before the excerpt; a request is not simulated; the simulation contradicts the log."""
    line = dated_line(DATE, False)
    begins = [i for i, text in enumerate(simulated_log(line, verbosity=4).splitlines()) if "processing task" in text]
    assert repair_case(imported(tmp_path, line, cut=slice(begins[1] - 8, None)).found) is None
    found = imported(tmp_path, line).found
    found.requests[1].left_out, found.requests[1].step = "no prompt length in the log", -1
    assert repair_case(found) is None
    found = imported(tmp_path, line).found
    found.requests[1].logged = replace(found.requests[1].logged, numbers={"cache_n": ProvenRange(30, 30)})
    assert repair_case(found) is None


SHORT = "H31.DA8.S300.|UA20>aa30/H.DB8.S.|UA.aa.|UB20>ab30/H.DC8.S.|UA.aa.|UB.ab.|UC20>ac30"
"""Three turns with a date of 8 tokens after token 31."""


def test_of_a_prompt_that_differs_at_a_date_the_rest_is_assumed_to_follow_unchanged(tmp_path):
    """The log shows a cut after token 31 and the length of what follows it: 370 and 420 tokens."""
    found = imported(tmp_path, SHORT, "A").found
    assert found.line == "A359>a30/A[:31].B378>b30/A[:31].C428>c30"
    case = repair_case(found)
    assert "requests 1, 2" in case.assumes and "token 31" in case.assumes
    assert (case.excluded, case.facts.texts) == (EXCLUDED, case.assumes)
    sizes = [["A", 359], ["a", 30], ["D", 8], ["E", 20], ["b", 30], ["F", 8], ["G", 20], ["c", 30]]
    assert case.scenario.words == dict(sizes)
    prompts = [[(one.word, one.start, one.stop) for one in step.prompt] for step in case.scenario.line.steps]
    assert prompts == [
        [("A", None, None)],
        [("A", None, 31), ("D", None, None), ("A", 39, None), ("a", None, None), ("E", None, None)],
        [("A", None, 31), ("F", None, None), ("A", 39, None), ("a", None, None), ("E", None, None),
         ("b", None, None), ("G", None, None)],
    ]  # fmt: skip
    assert [(one.words["D"], one.words["E"]) for one in case.variants] == [(1, 20), (64, 20)]


@pytest.mark.parametrize("moved", [{"shifts": ((0, 9),)}, {"chunks": ((0, 9),)}, {"truncated": True}])
def test_a_request_whose_slot_was_changed_otherwise_shows_no_date(tmp_path, moved):
    """The one that is left differs at a token where no other request does."""
    found = imported(tmp_path, SHORT, "A").found
    found.requests[2].logged = replace(found.requests[2].logged, **moved)
    assert repair_case(found).assumes == ""


@pytest.mark.parametrize(("rest", "is_assumed"), [(66, True), (65, True), (64, False)])
def test_more_than_the_longest_date_follows_in_the_earlier_prompt(tmp_path, rest, is_assumed):
    """Two prompts differ after token 31, with so many tokens of the earlier prompt after it."""
    line = f"H31.S{rest}>a30/H.B300[:{rest}]>b30/H.C{rest + 100}>c30"
    assert (repair_case(imported(tmp_path, line, "A").found).assumes != "") is is_assumed


def test_user_messages_begin_at_the_tokens_of_the_log(tmp_path):
    found = imported(tmp_path, SHORT.replace("20>", "200>")).found
    case = repair_case(found)
    marks = [[*step.request.user_starts] for step in found.scenario.steps]
    assert case.assumes and any(marks) and [[*step.request.user_starts] for step in case.scenario.steps] == marks


def test_a_log_whose_request_was_left_out_is_not_repaired(tmp_path):
    found = imported(tmp_path, SHORT, "A").found
    found.requests[1].is_bounded = False
    assert repair_case(found) is None
    found.requests[1].is_bounded, found.requests[1].step = True, -1
    assert repair_case(found) is None


def test_a_single_difference_is_not_assumed_to_be_a_date(tmp_path):
    case = repair_case(imported(tmp_path, "S2000.|A500>a40/S.|A[:200].B900>b9", "A").found)
    assert case.assumes == ""


def test_new_conversations_are_not_repaired(tmp_path):
    """Two users share a header: nothing of a prompt follows in the next."""
    case = repair_case(imported(tmp_path, "S300.|A900>a40/S.|B700>b40/S.|C400>c4", "A").found)
    assert case.assumes == ""


@pytest.mark.long
def test_request_numbers_are_those_of_the_scenario(tmp_path, capsys):
    """An excerpt from the middle: the first prompt of the scenario is what the slot held."""
    line = dated_line(DATE, False)
    begins = [i for i, text in enumerate(simulated_log(line, verbosity=4).splitlines()) if "processing task" in text]
    found = imported(tmp_path, line, cut=slice(begins[1] - 8, None))
    steps = [row["step"] for row in found.data["requests"]]
    assert [row["request"] for row in found.data["requests"]] == steps and steps[0] > 0
    assert not found.data["rejected"] and [turn["number"] for turn in found.data["turns"]] == [1, 2, 3]
    out = tmp_path / "case.toml"
    main(["import", str(tmp_path / "server.log"), "-o", str(out)])
    assert "cachesim why" in capsys.readouterr().out
    row = found.data["requests"][0]
    assert main(["why", str(out), str(row["step"]), "--json"]) == 0
    assert f'"prompt_n": {row["prompt_n"]}' in capsys.readouterr().out


def test_a_request_that_is_too_short_has_no_assumed_text_and_the_next_one_has(tmp_path):
    """The second prompt ends within the text after the date, so that the rest of the first cannot follow in it."""
    line = "S31.D8.T200.U20>u9/S.E8.T[:100]>v9/S.F8.T[:100].W20"
    case = repair_case(imported(tmp_path, line, "A").found)
    assert repr(case.scenario) == "A259>a9/A[:31].B108>b9/A[:31].D8.B[8:].b.E11>c1"
    assert "requests 1, 2 differ" in case.assumes


def test_a_prompt_without_new_text_has_no_assumed_text(tmp_path):
    """After the date, the second prompt has the rest of the first and its answer, and nothing else."""
    line = "S31.D8.T200.U20>u9/S.E8.T.U.u/S.F8.T.U.u.V1"
    case = repair_case(imported(tmp_path, line, "A").found)
    assert repr(case.scenario) == "A259>a9/A[:31].B237>b1/A[:31].D8.B[8:].E1>c1"


def test_a_log_without_a_changing_text_is_repaired_as_it_is_with_what_is_known_of_its_server(tmp_path):
    found = imported(tmp_path, "A60>a9/A.a.B20>b5", "A").found
    facts = CaseFacts(sources={"parallel": "printed"})
    case = repair_case(found, facts)
    assert (case.scenario.steps, case.excluded, case.facts) == (found.scenario.steps, EXCLUDED, facts)
    assert (case.assumes, case.variants) == ("", ())
