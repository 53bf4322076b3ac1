"""Results of the Python interface: short texts, tables, comparisons, pictures."""

from __future__ import annotations

import json
import pickle
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

import cachesim
from cachesim.judging.judged_run import run_judged
from cachesim.judging.run_data import run_data
from cachesim.records import TableDifference, table_differences

LINE = "S40.A60/S.A"
BUILD = "llama_cpp@b11549"
WRONG = {"case": "S40.A20/S.A>3/B9@0/S.A.C5", "profile": "ik_llama@1889-base", "model": "GA"}
LONG = "/".join(["S40.A60", *["S.A"] * 39])


@pytest.fixture(scope="module")
def judged():
    return cachesim.judge(LINE, BUILD)


@pytest.fixture(scope="module")
def several():
    return cachesim.judge(LINE, [BUILD, "vllm"])


def test_a_result_is_a_line(judged, several):
    facts = "96 of 200 prompt tokens reused"
    assert repr(judged) == f"<JudgedRun of {LINE} under {BUILD}: correct, {facts}, 3 re-evaluated>"
    assert repr(cachesim.run(LINE, BUILD)) == f"<RunTranscript of {LINE} under {BUILD}: {facts}>"
    assert repr(several).splitlines()[:2] == ["<Runs", f"  {judged!r}"]
    assert "llama-24143-entry-removed-dense under" in repr(cachesim.run("llama-24143-entry-removed-dense"))


@pytest.mark.parametrize("line", [LINE, LONG])
def test_nothing_of_a_result_is_long(line):
    run = cachesim.judge(line, BUILD, mode="provenance")
    one = run.requests[1]
    shown = [run, run.verdict, one, one.request, one.judged, run.log, cachesim.rules(BUILD), cachesim.run(line, BUILD)]
    assert [text for text in map(repr, shown) if len(text) > 200] == []
    assert len(repr(one.answer)) < 500
    assert len(repr(run.requests)) < 110 * len(run.requests)


def test_a_judged_table_has_the_numbers_of_the_requests(judged):
    rows = judged.table
    assert [[row[name] for name in ("request", "prompt", "cache_n", "restored", "prompt_n", "re_evaluated")]
            for row in rows] == [[0, 100, 0, 0, 100, 0], [1, 100, 96, 96, 4, 3]]  # fmt: skip
    assert {(row["profile"], row["verdict"], row["text"], row["status"]) for row in rows} == {(BUILD, "OK", "S.A", 200)}
    assert [list(row) for row in rows] == [list(rows[0])] * 2
    assert [(row["request"], row["tokens"], row["rule"]) for row in judged.charges] == [(1, 3, "LC-CKPT-CREATE.CR10")]


def test_a_table_has_no_row_for_another_step():
    line = "S4.A4/{restart}/S.A"
    assert [row["request"] for row in cachesim.run(line).table] == [0, 2]
    assert [row["request"] for row in cachesim.judge(line).table] == [0, 2]


def test_the_tables_of_several_runs_have_equal_columns(several):
    assert [(row["profile"], row["request"]) for row in several.table] == [
        (BUILD, 0), (BUILD, 1), ("vllm@0.33.0", 0), ("vllm@0.33.0", 1)]  # fmt: skip
    assert len({tuple(row) for row in several.table}) == 1
    assert several.charges == [*several[0].charges, *several[1].charges] and len(several.charges) == 2
    assert cachesim.run(LINE, [BUILD]).charges == []


def test_the_data_are_those_of_the_command(judged, several):
    assert json.loads(json.dumps(judged.to_dict())) == json.loads(json.dumps(run_data(judged)))
    assert [run["profile"] for run in json.loads(json.dumps(several.to_dict()))["runs"]] == [BUILD, "vllm@0.33.0"]
    played = cachesim.run(LINE, BUILD, model="GA")
    assert json.loads(json.dumps(played.to_dict())) == {
        "scenario": LINE, "model": "GA", "profile": BUILD, "mode": "provenance", "requests": played.table}  # fmt: skip


def test_runs_are_found_by_number_rule_set_and_engine(several):
    assert several[1] is several["vllm@0.33.0"] is several["vllm"] and len(several) == 2
    assert several[:1].table == several[0].table and isinstance(several[:1], cachesim.Runs)
    with pytest.raises(KeyError, match=r"sglang: 0 runs of llama_cpp@b11549, vllm@0\.33\.0"):
        several["sglang"]
    with pytest.raises(KeyError, match="llama_cpp: 2 runs"):
        cachesim.run(LINE, [BUILD, "llama_cpp@b10587"])["llama_cpp"]


def test_results_are_compared_by_their_tables(judged):
    assert judged == cachesim.judge(LINE, BUILD) and judged == cachesim.run(LINE, BUILD)
    assert cachesim.run(LINE, BUILD) == cachesim.run(LINE, BUILD, mode="none")
    assert judged == cachesim.judge(LINE, "llama_cpp@b11067", mode="provenance")         # another rule set
    assert judged != cachesim.judge(LINE, BUILD, model="A")
    assert judged != cachesim.run("S40.A60", BUILD) and cachesim.run("S40.A60", BUILD) != judged
    assert (judged == 3, judged == "text", judged != None) == (False, False, True)       # noqa: E711


def test_a_result_is_compared_with_the_columns_that_matter(judged):
    assert judged == [{"cache_n": 0}, {"cache_n": 96, "verdict": "OK"}] == judged
    assert judged == judged.table
    number = TableDifference("request 1", "cache_n", 96, 95)
    column = TableDifference("request 1", "cachen", "absent", 3)
    assert judged.differences([{"cache_n": 0}, {"cache_n": 95, "cachen": 3}]) == [number, column]


@pytest.mark.parametrize("expected, text", [
    ([{"cache_n": 1}, {}], "cache_n of request 0 is 0, expected 1"),
    ([{"text": "S"}, {}], "text of request 0 is 'S.A', expected 'S'"),
    ([{"cachen": 1}, {}], "cachen of request 0 is absent, expected 1"),
    ([{}], "request 1 is present, expected absent"), ([{}] * 3, "row 2 is absent, expected present"),
])
def test_a_difference_is_a_line(judged, expected, text):
    assert [str(one) for one in judged.differences(expected)] == [text]
    assert judged != expected


def test_a_difference_of_several_runs_names_the_rule_set(several):
    rows = [{}, {}, {}, {"cache_n": 0}]
    assert [str(one) for one in table_differences(several.table, rows)] == [
        "cache_n of request 1 under vllm@0.33.0 is 96, expected 0"]  # fmt: skip


def test_a_result_is_a_picture_in_a_notebook(judged, several):
    for run in (judged, several, cachesim.run(LINE, BUILD), cachesim.run(LINE, [BUILD, "vllm"])):
        [drawing] = ET.fromstring(run._repr_html_())
        assert drawing.tag.endswith("svg")
    assert '<g class="engines">' in several._repr_html_() and several._repr_html_().count(BUILD) >= 1


def test_a_run_under_a_changed_table_has_no_picture():
    table = replace(cachesim.rules(BUILD), name="llama_cpp@mine")
    assert cachesim.judge(LINE, BUILD, table=table)._repr_html_() is None
    assert cachesim.judge(LINE, [BUILD], table=table)._repr_html_() is None


def test_only_results_of_judge_are_drawn(judged):
    other = run_judged(judged.scenario, BUILD, "provenance")
    for runs in ((other,), (judged, other)):
        with pytest.raises(cachesim.BadInput, match="a picture shows results of judge"):
            cachesim.svg(*runs)


def test_a_check_raises_for_a_run_that_is_not_correct():
    with pytest.raises(cachesim.NotCorrect) as raised:
        cachesim.judge(**WRONG, check=True)
    first, *table = str(raised.value).splitlines()
    assert first == ("S40.A20/S.A>3/B9@0/S.A.C5 under ik_llama@1889-base: "
                     "wrong answer at request 1, 60 tokens re-evaluated")  # fmt: skip
    assert len(table) > 5 and raised.value.run.broken == [1]
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.run) == (str(raised.value), None)
    assert cachesim.judge(LINE, check=True).verdict.word == "correct"


def test_a_check_raises_for_an_undecided_run():
    with pytest.raises(cachesim.NotCorrect, match="refused"):
        cachesim.judge("A600/B3", BUILD, server={"ctx_size": 512}, check=True)


@pytest.mark.parametrize("expected", [[{}, 5], "text", {"cache_n": 0}, 5, None])
def test_a_result_is_compared_with_rows_only(judged, expected):
    assert judged.differences(expected) is None


def test_several_runs_are_titled_by_their_case_and_rule_sets(several):
    assert several.title == "S40.A60/S.A under llama_cpp@b11549, vllm@0.33.0"
    assert several[1:].title == "S40.A60/S.A under vllm@0.33.0"
