"""A scenario whose every text has control characters: no command prints them, no page and no picture contains them."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from html.parser import HTMLParser

import pytest

from cachesim.cli.main import main
from cachesim.tools.live.llama_server.export import FORMS

TEXT = "a\x1b[31m\x1b]0;t\x07\x9b2J\x7f\u202e<script>alert(1)</script>&\"' [red]b[/red]"
SCENARIO = """
schema = 2
id = "case"
title = {text}
source = [{text}]
why = {text}
engine = "llama_cpp"
model = "GA"
profiles = ["llama_cpp@b11549"]
[server]
parallel = 1
ctx_size = 1024
[words]
S = 40
A = 60
B = 9
[[request]]
prompt = "S.A"
why = {text}
[[request]]
prompt = "S.B"
why = {text}
[expect."llama_cpp@b11549"]
cache_n = [0, {{ either = [0, 1] }}]
why = {text}
"""
STYLE = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture
def file(tmp_path):
    escaped = json.dumps(TEXT).replace("\x7f", "\\u007f")
    (tmp_path / "case.toml").write_text(SCENARIO.format(text=escaped))
    return str(tmp_path / "case.toml")


def unsafe(text):
    return {sign for sign in text if not sign.isprintable() and sign not in "\n\t"}


@pytest.mark.part(4)
@pytest.mark.parametrize("words", [
    "run -v", "run -v --color always", "why 1 -v", "why 1 --color always", "diff -v -p latest -p b9518", "bisect",
    "advise", *(f"export --to {form}" for form in FORMS),
])  # fmt: skip
def test_no_command_prints_control_characters(words, file, capsys):
    name, *rest = words.split()
    main([name, file, *rest])
    out, err = capsys.readouterr()
    assert unsafe(STYLE.sub("", out) if "always" in words else out) | unsafe(err) == set(), out
    assert "\x1b[31m\x1b" not in out and len(out) > 50
    if name in ("run", "why"):
        assert r"a\x1b[31m" in STYLE.sub("", out) and "[red]b[/red]" in re.sub(r"\s", "", STYLE.sub("", out))


def test_json_has_the_text_itself(file, capsys):
    main(["run", file, "--json"])
    out = capsys.readouterr().out
    assert unsafe(out) == set() and json.dumps(TEXT) in out


class Page(HTMLParser):
    """Notes elements and attributes that run code."""

    def __init__(self):
        super().__init__()
        self.scripts = 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        assert all(not name.startswith("on") and not (value or "").startswith("javascript:") for name, value in attrs)


def test_pages_and_pictures_have_no_control_characters(file, tmp_path, capsys):
    page, drawing, trace = (tmp_path / f"x.{kind}" for kind in ("html", "svg", "json"))
    main(["run", file, "--html", str(page), "--svg", str(drawing), "--trace", str(trace)])
    assert all(unsafe(one.read_text("utf-8")) == set() for one in (page, drawing, trace))
    root = xml.etree.ElementTree.fromstring(drawing.read_bytes())
    assert any(r"a\x1b[31m\x1b]0;t\x07\x9b2J\x7f\u202e<script>" in (one.text or "") for one in root.iter())
    assert TEXT in json.dumps(json.loads(trace.read_text()), ensure_ascii=False).replace('\\"', '"') or \
        json.dumps(TEXT)[1:-1] in trace.read_text()  # fmt: skip
    reader = Page()
    reader.feed(page.read_text("utf-8"))
    assert reader.scripts == 2                     # its own, and the data of the walk


