"""Tests of the HTML page of lessons: well-formed, without network or script, with unique names."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser

import pytest

from cachesim.cli.main import main
from cachesim.tools.lessons import lesson_files
from cachesim.tools.lessons.html_lesson import inline, page
from cachesim.tools.lessons.lesson_files import Block, blocks
from tests.unit.tools.lessons.made_page import FILE, shown

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Whole(HTMLParser):
    """Parser that records open elements, names and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.names, self.addresses, self.tags = [], [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.names += [value for key, value in attrs if key == "id"]
        self.addresses += [value for key, value in attrs if key in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The page of all lessons and questions, written by the command."""
    file = tmp_path_factory.mktemp("lessons") / "l.html"
    assert main(["lesson", "-q", "--html", str(file)]) == 0
    return file.read_text("utf-8")


@pytest.mark.long
def test_all_lessons_in_one_page(everything):
    seen = Whole()
    seen.feed(everything)
    assert seen.open == [] and "img" not in seen.tags
    assert "<title>cachesim: lessons</title>" in everything and everything.count("<article") == 12
    assert len(seen.names) == len(set(seen.names)), "names are used once"
    inside = {one[1:] for one in seen.addresses if one.startswith("#")}
    assert inside <= set(seen.names) and {"lesson-1", "lesson-8", "quiz"} <= inside
    assert [one for one in seen.addresses if not one.startswith(("#", "https://github.com/"))] == []
    assert len(everything) < 400_000


@pytest.fixture(scope="module")
def several():
    """A page of four lessons and the questions."""
    return page("Lessons", [*map(lesson_files.lesson, "0135"), lesson_files.quiz()])


def test_an_article_ends_with_the_way_to_the_next_one(several):
    assert "<title>Lessons</title>" in several and several.count("<article") == 5
    ways = re.findall(r'<p class="ways">(.*?)</p>', several)
    assert len(ways) == 5 and ways[0].startswith('<a href="#lesson-1">Next: 1. Rows and states</a> &middot; ')
    assert ways[-1] == '<a href="#contents">Contents</a>'


def test_a_caption_is_a_sentence_with_a_step_to_the_end_of_its_run(several):
    said = re.findall(r'<p class="caption">(.*?)</p>', several)
    texts = [one.partition(" <button")[0] for one in said]
    assert len(said) >= 4 and all(one[0].isupper() and one.endswith(".") for one in texts)
    assert all("data-event=" in one for one in said)


def test_the_steps_of_a_lesson_are_numbered_and_name_events_of_its_runs(several):
    for article in several.split("<article ")[1:]:
        steps = re.findall(r'data-run="(\d+)" data-event="(\d+)" aria-label="step (\d+):', article)
        assert [int(number) for *_, number in steps] == list(range(1, len(steps) + 1))
        packed = re.search(r'class="walk">(.*?)</script>', article)
        runs = json.loads(zlib.decompress(base64.b64decode(packed[1])))["runs"] if packed else []
        assert bool(steps) == bool(runs)
        assert all(int(k) <= len(runs[int(run)]["log"].split("\n")) for run, k, _ in steps)


def test_no_name_of_a_drawing_is_lost(several):
    used = set(re.findall(r"url\(#([\w-]+)\)", several))
    assert used and all(f'id="{name}"' in several for name in used)


def test_a_link_to_a_lesson_that_is_not_on_the_page_is_text():
    one = lesson_files.lesson("0")
    assert 'href="#lesson-1"' not in page(one.title, [one])


def test_links_to_other_pages_and_pictures_without_runs_are_text():
    parsed = blocks("# T\n\nSee [two](2-one-token.md).\n\n![a picture](one.svg)\n")
    text = page("T", [lesson_files.Lesson(8, "T", lesson_files.folder(), parsed)])
    assert "<p>See two.</p>" in text and '<p class="caption">A picture.</p>' in text


def test_text_is_escaped():
    parsed = blocks("# t & u\n\n`a<b>` & <i>\n\n```\n<script>\n```\n")
    text = page("a < b", [lesson_files.Lesson(8, "t & u", lesson_files.folder(), parsed)])
    assert text.count("<script>") == 1 and "<i>" not in text
    assert "<code>a&lt;b&gt;</code> &amp; &lt;i&gt;" in text


@pytest.mark.parametrize(("text", "html"), [
    ("**b** *i* `c`", "<strong>b</strong> <em>i</em> <code>c</code>"),
    ("`--cache-ram` `-c 5`", '<code class="flag">--cache-ram</code> <code>-c 5</code>'),
    ("[two](2-one-token.md)", '<a href="#lesson-2">two</a>'), ("[q](quiz.md)", '<a href="#quiz">q</a>'),
    ('say "a" & <b>', 'say "a" &amp; &lt;b&gt;'), ("[a](../x.md)", "a"),
    ("[a](https://github.com/x)", '<a href="https://github.com/x">a</a>'),
])  # fmt: skip
def test_what_stands_in_a_line(text, html):
    assert inline(text) == html


def page_of(block):
    return page("T", [lesson_files.Lesson(8, "T", lesson_files.folder(), (block,))])


def test_an_answer_is_folded():
    inside = (Block("text", "one"), Block("answer", inside=(Block("text", "two"),)))
    assert ("<details><summary>Answer</summary><p>one</p>\n<details><summary>Answer</summary><p>two</p></details>"
            "</details>") in page_of(Block("answer", inside=inside))  # fmt: skip


@pytest.mark.parametrize(("block", "html"), [
    (Block("heading", "A", level=3), "<h3>A</h3>"), (Block("text", "a"), "<p>a</p>"),
    (Block("code", "x"), '<pre class="line" tabindex="0"><code>x</code></pre>'),
    (Block("code", "x\ny"), '<pre tabindex="0"><code>x\ny</code></pre>'),
    (Block("list", rows=(("-", "a"), ("-", "b"))), "<ul><li>a</li><li>b</li></ul>"),
    (Block("list", rows=(("1.", "a"),)), "<ol><li>a</li></ol>"),
    (Block("table", rows=(("a", "b"), ("1", "2"), ("3", "4"))),
     '<table tabindex="0"><thead><tr><th>a</th><th>b</th></tr></thead>'
     "<tbody><tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></tbody></table>"),
])  # fmt: skip
def test_a_block_is_an_element(block, html):
    assert html in page_of(block)


def test_a_page_is_that_of_the_file():
    assert shown() == FILE.read_text("utf-8")
