"""Tests of the HTML, CSS, JavaScript and SVG files of tools: formatting, style, and the names they refer to."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from html.parser import HTMLParser

import pytest

from cachesim.tools.picture import timeline
from cachesim.tools.picture.legend import WORDS
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.plot import COLOURS, SIGNS
from tests.shared import ROOT

TOOLS = ROOT / "cachesim" / "tools"
FILES = {str(path.relative_to(TOOLS)): path.read_text("utf-8") for path in sorted(TOOLS.rglob("*"))
         if path.suffix in (".html", ".css", ".js", ".svg")}  # fmt: skip
SCRIPTS = ["picture/run.js", "picture/walk.js", "lessons/steps.js"]
STYLES = [name for name in FILES if name.endswith(".css")]
TREES = [name for name in FILES if name.endswith((".html", ".svg"))]
PAIRS = {")": "(", "]": "[", "}": "{"}
NAME = r"([a-z][\w-]*)"
COMPUTED = {
    "picture/drawing.css": {f"o-{origin}" for origin in WORDS},
    "picture/plot.css": {
        *(f"{sign}-{colour}" for sign in "ms" for colour in range(COLOURS)), "m-faint", "m-before", "m-bad",
        *(f"t-{kind}" for kind in SIGNS if kind != "none")},
}  # fmt: skip
"""Classes of each style sheet whose names are put together from a kind."""


class Tree(HTMLParser):
    """Parser that compares indentation at line starts with the number of open elements. ``names``: all ids."""

    def __init__(self, text):
        super().__init__()
        self.lines, self.open, self.names = text.splitlines(), [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "input", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.indented()

    def handle_startendtag(self, tag, attrs):
        self.names += [value for key, value in attrs if key == "id"]
        self.indented()

    def indented(self):
        line, column = self.getpos()
        assert self.lines[line - 1][:column].strip() or column == 2 * len(self.open), f"line {line}"


def code(name):
    """Return a file without its comments."""
    return re.sub(r"/\*.*?\*/|^ *//.*", "", FILES[name], flags=re.MULTILINE)


def neighbours(name, *ends):
    """Return the text of a tool's files with these endings."""
    folder = (TOOLS / name).parent
    return "\n".join(path.read_text("utf-8") for path in sorted(folder.iterdir()) if path.suffix in ends)


def selectors(name):
    """Return the selectors of a style sheet."""
    return "\n".join(re.findall(r"([^{};]+)\{", code(name)))


def test_all_files_are_seen():
    assert {"picture/page.html", "picture/walk.js", "lessons/page.css"} <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_lines_are_short_and_indented_by_two_spaces(name):
    text = FILES[name]
    assert text.endswith("\n") and not re.search(r"\t|\r| $|\n\n\n|\n\n\Z", text, re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > 120 or (len(line) - len(line.lstrip())) % 2] == []


@pytest.mark.parametrize("name", TREES)
def test_elements_are_closed_and_indented(name):
    names = Tree(FILES[name]).names
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", [*STYLES, *SCRIPTS])
def test_brackets_are_closed_where_their_line_is_indented(name):
    stack = []
    for line in code(name).splitlines():
        indent = len(line) - len(line.lstrip())
        for column, sign in enumerate(line):
            if sign in PAIRS.values():
                stack.append((sign, indent))
            elif sign in PAIRS:
                opened, wanted = stack.pop()
                assert opened == PAIRS[sign] and (column > indent or indent == wanted), line
        assert not name.endswith(".css") or line[-1:] in ("", ",", ";", "{", "}"), line
    assert stack == []


def test_nothing_is_lost_where_spaces_are():
    """``asset`` removes spaces that must not occur in text, and embedded files must not end the page early."""
    for name in FILES:
        assert name.endswith((".html", ".svg")) or not re.search(r"</|<!--", FILES[name])
    assert [line for line in "".join(map(code, SCRIPTS)).splitlines() if line.count("`") % 2 or "/*" in line] == []
    quoted = [text for name in STYLES for text in re.findall(r"""\"[^"]*"|'[^']*'""", code(name))]
    assert [text for text in quoted if not text[1:-1].isalnum()] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="node, which parses walk.js, is not on this machine")
def test_the_script_is_javascript(tmp_path):
    script = tmp_path / "walk.js"
    for text in ("".join(FILES[name] for name in SCRIPTS), timeline.script()):
        script.write_text(text, "utf-8")
        done = subprocess.run(["node", "--check", script], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_the_script_finds_what_it_asks_for():
    script, page = "".join(map(code, SCRIPTS)), Tree(FILES["picture/page.html"])
    assert set(re.findall(rf'\$\("{NAME}"\)', script)) - set(page.names) == set()
    asked = " ".join(re.findall(r'(?:all|querySelector|closest)\("(.*?)"', script))
    asked += "".join(f" .{name}" for name in re.findall(rf'find\("{NAME}"\)', script))
    toggled = re.findall(rf'classList\.\w+\("{NAME}"', script)
    styled, written = (
        neighbours("picture/x", *ends) + neighbours("lessons/x", *ends) for ends in ((".css",), (".py", ".html")))
    assert toggled and [name for name in {*re.findall(rf"\.{NAME}", asked), *toggled}
                        if not re.search(rf"\.{name}\b", styled)
                        and not re.search(rf'class="[^"]*\b{name}\b', written)] == []  # fmt: skip


@pytest.mark.parametrize("name", STYLES)
def test_every_rule_is_for_something_that_is_written(name):
    ids, classes = (set(re.findall(sign + NAME, selectors(name))) for sign in ("#", r"\."))
    written = neighbours(name, ".py", ".html", ".js") + neighbours("picture/x", ".py", ".html", ".js")
    assert [one for one in ids if f'id="{one}"' not in written] == []
    computed = COMPUTED.get(name, set())
    assert [one for one in classes - computed if not re.search(rf"""["' ]{one}["' {{]""", written)] == []
    assert computed <= classes


@pytest.mark.parametrize("name", STYLES)
def test_every_variable_has_a_value_on_every_paper(name):
    declared = Counter(re.findall(rf"^ *--{NAME}:", code(name), re.MULTILINE))
    beside = [code("picture/palette.css"), code("picture/drawing.css") if name == "picture/plot.css" else ""]
    known = {*declared, *re.findall(rf"^ *--{NAME}:", "\n".join(beside), re.MULTILINE)}
    assert set(re.findall(rf"var\(--{NAME}\)", code(name))) <= known and len(set(declared.values())) <= 1


@pytest.mark.parametrize("tool", ["picture", "workload"])
def test_what_python_draws_with_is_declared(tool):
    texts, styles = neighbours(f"{tool}/x", ".py", ".svg"), neighbours(f"{tool}/x", ".css")
    assert [one for one in set(re.findall(rf"var\(--{NAME}\)", texts)) if f"--{one}:" not in styles] == []
    wanted = set(re.findall(rf"url\(#{NAME}\)", texts + styles))
    assert wanted <= set(Tree(FILES["picture/patterns.svg"]).names) and bool(wanted) == (tool == "picture")


@pytest.mark.parametrize(("name", "text", "written"), [
    ("a.css", "/* c */\na > b,\nc d {\n  e: calc(1px - 2px) 0;\n  f: g(1, 2);\n}\n\n/* h */\ni:j {\n  --k: #fff;\n}\n",
     "a>b,c d{e:calc(1px - 2px) 0;f:g(1,2)}\ni:j{--k:#fff}"),
    ("a.css", "/* one\n   two */\na {\n  b: c;\n}\n\n.d > e {\n  f: 1, 2;\n}\n", "a{b:c}\n.d>e{f:1,2}"),
    ("a.js", "// c\nif (a) {\n  // d\n  b(); // e\n}\n\nf();\n", "if (a) {\nb(); // e\n}\nf();"),
    ("a.html", "<p>\n  $a\n  <b>c</b>\n</p>\n", "<p>\n$a\n<b>c</b>\n</p>"),
    ("a.svg", "<g>\n  <a/>\n\n</g>\n", "<g><a/></g>"),
])  # fmt: skip
def test_a_file_is_written_without_its_formatting(tmp_path, name, text, written):
    (tmp_path / name).write_text(text, "utf-8")
    assert asset(str(tmp_path / "x.py"), name) == written
