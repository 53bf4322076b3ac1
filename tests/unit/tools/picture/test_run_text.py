"""Tests of the text around a drawing: verdict, positions, decisions, sums, folded rule sets, names, titles."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape

import pytest

import cachesim
from cachesim.cli.main import main
from cachesim.events import Decided
from cachesim.judging.run_data import run_data, why_data
from cachesim.judging.verdict_text import answers_text, cost_text
from cachesim.tools.picture.event_sentences import has_effect
from cachesim.tools.picture.page import page
from cachesim.tools.picture.run_text import RunText, _bar, _cause, _cost, _sentence, _table
from cachesim.tools.picture.scene import RuleSource, TokenStretch
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


@pytest.mark.parametrize(("rule", "cause", "text"), [
    ("", None, ""), ("", RuleSource("R.1", "x.cpp", "https://x", ("-c 4",)), ""),
    ("R.1", None, ' <span class="rule"><code>R.1</code></span>'),
    ("R.1", RuleSource("R.1", "x.cpp", "", ("-c 4", "-np 1")), ' <span class="rule"><code>R.1</code>, '
                                                               "<code>-c 4</code></span>"),
    ("R<1>", RuleSource("R<1>", "x.cpp", "https://x/?a&b", ()), ' <span class="rule"><code>R&lt;1&gt;</code>, '
                                                              '<a href="https://x/?a&amp;b">source</a></span>'),
])  # fmt: skip
def test_a_loss_names_its_rule_the_first_option_and_the_source(rule, cause, text):
    assert _cause(rule, cause) == text


@pytest.mark.parametrize(("part", "origin"), [
    (TokenStretch(0, 1, "evaluated"), "1 token evaluated, new"),
    (TokenStretch(2, 9, "again", "erased"), "7 tokens evaluated again: erased"),
    (TokenStretch(2, 9, "again", "", 1), "7 tokens evaluated again at request 1"),
    (TokenStretch(2, 9, "again", "it <is> gone", 0, "R.1"), "7 tokens evaluated again: it <is> gone at request 0 R.1"),
])  # fmt: skip
def test_a_range_says_where_its_tokens_come_from(part, origin):
    text = RunText(pictured().scene(), None, 0)
    assert words(text._origin(text.scene.rows[0], part)) == origin


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
    said = f"{answers_text(data)}, {cost_text(data)}: entry removed from the prompt cache on load"
    assert words(text_of().verdict(True)) == said == (
        "correct answers, 60 tokens re-evaluated: entry removed from the prompt cache on load")
    assert words(text_of().verdict(False)).startswith(OLD)
    assert words(text_of(focus=3).verdict(True)).startswith("request 3 S.A.D: correct answer, 60 tokens re-evaluated:")
    assert words(text_of(focus=0).verdict(True)) == "request 0 S.A: correct answer, 0 tokens re-evaluated"
    assert '<span class="good">correct answer</span>' in text_of(focus=0).verdict(True)
    run = pictured().scene()
    wrong = run._replace(rows=[row._replace(is_wrong=True, verdict="WRONG OUTPUT") for row in run.rows])
    assert '<span class="bad">wrong answer</span>' in RunText(wrong, pictured().told(), 0, "", 0).verdict(True)


def test_the_positions_of_the_request_in_question_are_those_of_its_report():
    above = text_of(focus=3).around().above
    at = [tuple(map(int, re.findall(r"\d+", one))) for one in re.findall(r'class="positioned">([^<]+)<', above)]
    wanted = [(one["start"], one["stop"] - 1) for one in why_data(judged(), 3)["computed"]]
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
    assert "LC-SLOT-SELECT.SL2" in shown and "nothing evicted" not in shown and "nothing evicted" in folded


def test_the_table_ends_with_sums():
    beside = text_of().around().beside
    total = re.findall(r"<td>(.*?)</td>", re.search(r"<tfoot>(.*?)</tfoot>", beside)[1])
    assert total == ["", "total", "", "80", "267", "60", "", ""]


def test_equal_rule_sets_are_one_picture(write):
    page = write("run", DENSE)
    heads = [words(head) for head in re.findall(r"<h2>(.*?)</h2>", page)]
    assert heads == ["llama_cpp@b9518, b10587, b11549 model AAAA",
                     "llama_cpp@pr24143-on-b9518, pr24143-on-b10587 model AAAA"]  # fmt: skip


def test_words_show_their_titles(write):
    page = write("run", DENSE, "-p", OLD)
    assert "S system, A chat A" in words(page) and '<code title="S system, A chat A">S.A</code>' in page
    assert ">S system</text>" in page


def test_a_comparison_says_first_whether_a_request_differs(write):
    equal = write("diff", DENSE, "-p", OLD, "-p", "llama_cpp@b11549")
    assert 'class="lead">no request differs (of 4)<' in equal and equal.count("no request differs") == 1
    other = write("diff", DENSE, "-p", OLD, "-p", "llama_cpp@pr24143-on-b9518")
    assert 'class="lead">1 of 4 requests differs: 3<' in other and "<h2>A: " in other and "<h2>B: " in other


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
    for said in ("Cause: ", "Read from the log:", "Follows from the log:", "Simulated with assumed texts", "line 2"):
        assert said in words(log), said
    assert "<summary>the report with every line</summary>" in log
    bodies = write("import", str(ROOT / "tests/unit/tools/request_bodies/agent.jsonl"))
    for said in ("cannot reuse more than", "the date or time in the system prompt", "10:01", "put it last"):
        assert said in words(bodies), said
    assert bodies.count("are re-evaluated because the prompt changed<") == 2        # the lead, and in the whole report


def test_a_table_has_a_foot_only_with_sums():
    assert _table(("a",), [["1"], ["2"]]) == (
        "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr><tr><td>2</td></tr></tbody></table>")
    assert _table(("a",), [], ["3"]) == (
        "<table><thead><tr><th>a</th></tr></thead><tbody></tbody><tfoot><tr><td>3</td></tr></tfoot></table>")


def test_a_run_without_losses_has_no_table_of_rules():
    scene = pictured().scene()
    assert RunText(scene._replace(causes={}), None, 0)._rules() == ""
    cause = RuleSource("R<1>", "x.cpp & y", "https://x", ("-c 4", "-np 1"))
    found = RunText(scene._replace(causes={"R<1>": cause}), None, 0)._rules()
    assert re.findall(r"<t[hd]>(.*?)</t[hd]>", found) == [
        "rule behind a loss", "source", "governed by", "<code>R&lt;1&gt;</code>", "x.cpp &amp; y",
        "<code>-c 4</code><br><code>-np 1</code>"]  # fmt: skip


def test_a_single_request_has_no_sums():
    scene = pictured().scene()
    one = RunText(scene._replace(rows=scene.rows[:1]), None, 0)._requests()
    assert "<tfoot>" not in one and one.count("<tr>") == 2


@pytest.mark.parametrize(("fine", "cost", "html"), [
    (True, "", '<p class="verdict">x<span class="good">a &lt;b&gt;</span></p>'),
    (False, "0 tokens", '<p class="verdict">x<span class="bad">a &lt;b&gt;</span>, <span>0 tokens</span></p>'),
    (True, "10 tokens", '<p class="verdict">x<span class="good">a &lt;b&gt;</span>, '
                        '<span class="lost">10 tokens</span></p>'),
])  # fmt: skip
def test_a_verdict_is_coloured_by_answer_and_cost(fine, cost, html):
    assert _sentence("x", "a <b>", fine, cost) == html


@pytest.mark.parametrize(("start", "stop", "box"), [
    (0, 50, 'x="0%" width="50%"'), (100, 100, 'x="99%" width="1%"'), (99, 100, 'x="99%" width="1%"'),
    (33, 34, 'x="33%" width="1%"'), (0, 100, 'x="0%" width="100%"'),
])  # fmt: skip
def test_a_bar_can_be_seen_and_stays_within_its_place(start, stop, box):
    assert f'class="o-again" {box} height="100%"' in _bar(TokenStretch(start, stop, "again"), 100)


def test_the_cost_of_a_request_has_the_reason_of_its_longest_loss():
    row = pictured().scene().rows[0]
    short, long = TokenStretch(9, 10, "again", "late"), TokenStretch(1, 6, "again", "long")
    new = TokenStretch(10, 99, "evaluated", "new")
    assert _cost(row._replace(stretches=[long, short, new])) == "6 tokens re-evaluated: long"
    assert _cost(row._replace(stretches=[short, new])) == "1 token re-evaluated: late"
    assert _cost(row._replace(stretches=[new])) == "0 tokens re-evaluated"


@pytest.mark.parametrize(("slot", "has_pool", "shown"), [
    (0, False, "0"), (3, False, "3"), (-1, False, ""), (0, True, "")])  # fmt: skip
def test_the_table_of_requests_has_the_slot_of_each(slot, has_pool, shown):
    scene = pictured().scene()
    row = scene.rows[0]._replace(slot=slot, cache_n=0, prompt_n=1234, stretches=(), reason="why <not>", read=("read",))
    text = RunText(scene._replace(rows=[row], has_pool=has_pool), None, 0)
    assert text._cells(row) == [
        "0", '<code title="S system, A chat A">S.A</code>', shown, "·", "1,234", "·", "<span>correct answer</span>",
        "why &lt;not&gt;; read"]  # fmt: skip
    wrong = text._cells(row._replace(is_wrong=True, read=()))
    assert wrong[-2:] == ['<span class="bad">correct answer</span>', "why &lt;not&gt;"]


def test_a_request_without_tokens_has_no_positions():
    text = RunText(pictured().scene(), None, 0)
    assert text._positions(text.scene.rows[0]._replace(stretches=())) == ""


def test_a_row_of_positions_has_its_first_and_last_and_its_bar():
    text = RunText(pictured().scene(), None, 0)
    row = text.scene.rows[0]._replace(stretches=[TokenStretch(0, 1500, "kept"), TokenStretch(1500, 2000, "evaluated")])
    assert text._positions(row) == (
        '<ol class="positions"><li><span class="positioned">0..1,499</span>'
        f"{_bar(row.stretches[0], 2000)}<span>1500 tokens kept in the slot</span></li>"
        f'<li><span class="positioned">1,500..1,999</span>{_bar(row.stretches[1], 2000)}'
        "<span>500 tokens evaluated, new</span></li></ol>")


def test_only_the_request_in_question_is_open_and_its_positions_stand_above():
    beside = text_of(focus=3).around().beside
    heads = re.findall(r'<details id="d-[^"]*r(\d)"( open)?>', beside)
    assert heads == [("0", ""), ("1", ""), ("2", ""), ("3", " open")]
    parts = re.split(r'<details id="d-', beside)[1:]
    assert ['class="positions"' in part for part in parts] == [True, True, True, False]


def test_a_tooltip_has_the_titled_words_only():
    text = text_of()
    row = text.scene.rows[3]
    assert ' title="S system, A chat A, D next turn"' in text._prompt(row)
    bare = [word._replace(title="") for word in row.words]
    assert ' title="D next turn"' in text._prompt(row._replace(words=(*bare[:2], row.words[2])))
    assert text._prompt(row._replace(words=bare)) == "<code>S.A.D</code>"


def test_a_decision_that_another_slot_repeats_is_shown_once_with_its_number():
    told = pictured().told()
    event = next(one for one in told.walk.events if isinstance(one, Decided) and has_effect(one))
    for slots, times in (([0, 1], " (2 times)"), ([0], ""), ([0, 1, 2], " (3 times)")):
        events = [replace(event, slot=slot) for slot in slots]
        walk = told.walk._replace(events=events, rows=[0] * len(events))
        found = RunText(pictured().scene(), told._replace(walk=walk), 0)._decisions(0)
        assert found.count("<li>") == 1 and f"{times} <code>{event.rule}</code></li></ul>" in found
