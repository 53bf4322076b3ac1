"""Tests of reports as HTML: every text of the report in a terminal, escaped, once."""

from __future__ import annotations

import re
from html import unescape

import pytest
from rich.console import Group
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from cachesim.base.layout import FittedRenderable, indented
from cachesim.tools.picture import report_html as module
from cachesim.tools.picture.report_html import report_html, spans_html

EVIL = "</script><b onclick='x'>\x1b[31m&amp;\u202e"


def table():
    made = Table("name", EVIL)
    made.add_column("n", justify="right")
    made.add_row("a", Text.assemble("b ", ("c", "bold red")), "1", style="dim")
    return made


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def test_every_part_of_a_report_is_written():
    parts = [
        "x",
        Text("y", "bold"),
        Padding(Text("z", "dim"), 1),
        indented("i"),
        FittedRenderable(lambda _: Text("f")),
        table(),
    ]
    html = report_html(Group(Group(*parts), Text(" 0  quoted"), Text("cmd 'a'", no_wrap=True)), "report")
    for text in ("x", "y", "z", "i", "f", "name", "a", "b c", "1", "0 quoted", "cmd 'a'"):
        assert re.search(rf"(^| ){re.escape(text)}( |$)", words(html)), text
    assert "<h2><span class=\"t-bold\">y</span></h2>" in html and "<pre tabindex=\"0\"><code>cmd" in html
    assert '<td class="end">1</td>' in html and '<span class="t-bold t-red">c</span>' in html
    assert '<tr class="t-dim">' in html and 'class="quoted"' in html


def test_a_part_that_is_neither_text_nor_table_is_left_out():
    assert report_html(Group(Rule(), Text("x")), "report") == report_html(Group("x"), "report")


def test_texts_are_escaped():
    for part in (EVIL, Text(EVIL, "bold"), Text(EVIL, no_wrap=True), indented(EVIL), table()):
        html = report_html(part, "report")
        assert "<b" not in html.replace("<body", "") and "</script" not in html and "\x1b" not in html
        assert "&lt;/script&gt;&lt;b onclick=" in html and "&amp;amp;" in html and "\\u202e" in html


def test_lines_of_the_page_are_not_repeated_and_long_reports_end(monkeypatch):
    lines = Group(*(Text(f"line {n}") for n in range(9)))
    assert "line 3" not in report_html(lines, "report", ["line 3"]) and "line 8" in report_html(lines, "report")
    monkeypatch.setattr(module, "ROWS", 4)
    assert words(report_html(lines, "report")) == "line 0 line 1 line 2 line 3 …"


def test_tables_have_names_of_their_own():
    names = re.findall(r'aria-label="([^"]+)"', report_html(Group(table(), table()), "report"))
    assert len(set(names)) == len(names) == 2


@pytest.mark.parametrize("style", ["bold", "dim", "red", "yellow", "green"])
def test_styles_become_classes_with_rules(style):
    from cachesim.tools.picture.page_assets import asset

    assert f'<span class="t-{style}">x</span>' in report_html(Text.assemble(("x", style)), "report")
    assert f".t-{style}" in asset(module.__file__, "page.css")


@pytest.mark.parametrize(("text", "html"), [
    (Text("plain"), "plain"), (Text("all", "dim"), '<span class="t-dim">all</span>'), (Text(""), ""),
    (Text.assemble(("a", "bold"), " b ", ("c<", "red")),
     '<span class="t-bold">a</span> b <span class="t-red">c&lt;</span>'),
    (Text.assemble("a", ("b", "bold green"), style="dim"),
     '<span class="t-dim">a</span><span class="t-bold t-dim t-green">b</span>'),
    (Text.assemble(("a", "italic"), "b"), "ab"),
])  # fmt: skip
def test_a_style_reaches_over_its_own_part_and_a_part_without_one_has_no_element(text, html):
    assert spans_html(text) == html


def test_overlapping_styles_are_cut_at_their_ends():
    text = Text("abcdef")
    text.stylize("bold", 1, 4)
    text.stylize("red", 3, 5)
    assert spans_html(text) == (
        'a<span class="t-bold">bc</span><span class="t-bold t-red">d</span><span class="t-red">e</span>f')
