"""Tests of the text around a drawing: verdict, positions, decisions, sums, folded rule sets, names, titles."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

import pytest

import cachesim
from cachesim.cli.main import main
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict_text import answers_text, cost_text
from cachesim.judging.why_data import answer_data
from cachesim.tools.picture.page import page
from cachesim.tools.picture.run_text import RunText
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.run.pictured_runs import run_pictured
from tests.shared import ROOT

DENSE, OLD = "llama-24143-entry-removed-dense", "llama_cpp@b9518"
CASE = cachesim.load(DENSE)


@cache
def judged():
    return cachesim.judge(CASE, OLD, mode="provenance")


@cache
def pictured():
    return run_pictured(CASE, OLD, events=True)


def text_of(name="", focus=None):
    return RunText(pictured().scene(), pictured().told(), 0, name, focus)


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def test_a_page_without_a_result_in_a_sentence_has_no_lead():
    scenes = [pictured().scene()]
    assert '<p class="lead">' not in page(scenes, PictureOptions())
    assert '<p class="lead">it &lt;differs&gt;</p>' in page(scenes, PictureOptions(note="it <differs>"))


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Return a function that writes the page of a command and returns it."""
    def written(*argv):
        file = tmp_path_factory.mktemp("page") / "a.html"
        main([*argv, "--html", str(file), "-q"])
        return file.read_text("utf-8")

    return written


def test_a_verdict_has_the_answer_then_the_cost():
    data = run_data(judged())
    assert words(text_of().verdict(True)).startswith(f"{answers_text(data)}, {cost_text(data)}: ")
    assert "60 tokens" in cost_text(data)
    assert words(text_of().verdict(False)).startswith(OLD)
    assert "60 tokens" in words(text_of(focus=3).verdict(True)) and "0 tokens" in words(text_of(focus=0).verdict(True))
    assert '<span class="good">' in text_of(focus=0).verdict(True)
    run = pictured().scene()
    wrong = run._replace(rows=[row._replace(is_wrong=True, verdict="WRONG OUTPUT") for row in run.rows])
    assert '<span class="bad">' in RunText(wrong, pictured().told(), 0, "", 0).verdict(True)


def test_the_positions_of_the_request_in_question_are_those_of_its_report():
    above = text_of(focus=3).around().above
    at = [tuple(map(int, re.findall(r"\d+", one))) for one in re.findall(r'class="positioned">([^<]+)<', above)]
    wanted = [(one["start"], one["stop"] - 1) for one in answer_data(judged(), 3)["computed"]]
    assert at[0] == (0, 39) and at[1:-1] == wanted and at[-1] == (112, 114)
    bars = [(float(x), float(wide)) for x, wide in re.findall(r'x="([\d.]+)%" width="([\d.]+)%"', above)]
    assert [pytest.approx(100 * a / 115, abs=0.1) for a, _ in at] == [x for x, _ in bars]
    assert sum(wide for _, wide in bars) == pytest.approx(100, abs=0.5)
    assert "positions" not in text_of().around().above


def test_sentences_come_before_rules_and_decisions_without_an_effect_are_folded():
    beside = text_of().around().beside
    items = re.findall(r"<li>(?!<span)(.*?)</li>", beside)
    assert items and all(re.fullmatch(r"[^<]+ <code>[A-Z]+-[^<]+</code>", item) for item in items)
    shown, folded = re.split(r"<details><summary>\d+ more without an effect</summary>", beside, maxsplit=1)
    assert "LC-SLOT-SELECT.SL2" in shown and "LC-" in folded


def test_the_table_ends_with_sums():
    beside = text_of().around().beside
    total = re.findall(r"<td>(.*?)</td>", re.search(r"<tfoot>(.*?)</tfoot>", beside)[1])
    assert total == ["", "total", "", "80", "267", "60", "", ""]


def test_the_table_of_a_single_request_has_no_sums(write):
    assert "<tfoot>" not in write("run", "A9", "--model", "A", "-p", "llama_cpp@b11549")


def test_equal_rule_sets_are_one_picture(write):
    page = write("run", DENSE, "-p", OLD, "-p", "llama_cpp@b10587", "-p", "llama_cpp@pr24143-on-b9518")
    heads = [words(head) for head in re.findall(r"<h2>(.*?)</h2>", page)]
    assert heads == ["llama_cpp@b9518, b10587 model AAAA", "llama_cpp@pr24143-on-b9518 model AAAA"]


def test_words_show_their_titles(write):
    page = write("run", DENSE, "-p", OLD)
    assert "S system, A chat A" in words(page) and '<code title="S system, A chat A">S.A</code>' in page
    assert ">S system</text>" in page


def test_a_comparison_says_first_whether_a_request_differs(write):
    equal = write("diff", "A9/A", "--model", "A", "-p", OLD, "-p", "llama_cpp@b11549")
    assert re.search('class="lead">[^<]*(of 2)', equal)
    other = write("diff", DENSE, "-p", OLD, "-p", "llama_cpp@pr24143-on-b9518")
    assert re.search('class="lead">1 of 4 [^<]*: 3<', other) and "<h2>A: " in other and "<h2>B: " in other


@pytest.mark.long
def test_advice_names_its_pictures_and_lists_every_suggestion(write, capsys):
    page = write("advise", DENSE, "-p", OLD)
    out = capsys.readouterr().out
    heads = re.findall(r"<h2>(.*?) <small>", page)
    assert heads[0] == "now: 267 tokens evaluated" and heads[1].startswith("with ")
    commands = re.findall(r"^ +(cachesim run .*)$", out, re.MULTILINE)
    assert len(commands) > 1 and all(command in unescape(page) for command in commands)


def test_pages_of_logs_and_bodies_have_the_report(write, capsys):
    log = write("import", str(ROOT / "tests/unit/tools/server_logs/verbosity_4.log"))
    assert "line 2" in words(log) and "<summary>" in log
    bodies = write("import", str(ROOT / "tests/unit/tools/request_bodies/agent.jsonl"))
    assert "10:01" in words(bodies) and 'class="lead">' in bodies


def test_only_the_request_in_question_is_open_and_its_positions_stand_above():
    beside = text_of(focus=3).around().beside
    heads = re.findall(r'<details id="d-[^"]*r(\d)"( open)?>', beside)
    assert heads == [("0", ""), ("1", ""), ("2", ""), ("3", " open")]
    parts = re.split(r'<details id="d-', beside)[1:]
    assert ['class="positions"' in part for part in parts] == [True, True, True, False]
