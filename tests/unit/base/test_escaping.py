"""Property tests of ``escaping``: any text stays in its field, and reads back where the target can hold it."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import tomllib
import xml.etree.ElementTree
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base import escaping as e

EVERY = st.text(st.characters())            # all code points, lone surrogates too
WORDS = ["`", "$(touch OWNED)", "'", '"', '"""', "\\", "\n", "\r", "\r\n", "\t", "\0", "\x1b[31m", "\x1b]0;t\x07",
         "\x85", "\u2028", "\u202e", "\u2066", "\ufeff", "\ufffe", "\uffff", "\ud800", "\udcff",
         "\ud83d\ude00", "\U0001f600", "#", "-", "_", "*", "[a](b)", "![a]", "<b>", "</title>", "<!--",
         "-->", "]]>", "&amp;", "&#0;", "~~", "END_OF_PROGRAM", "EOF", "@TITLE@", "@HISTORY@", "{", "}",
         "```", "\\`", "a_b", "a b", " a ", "_a", "_a_", "\xa0", "\x7f", "é", "<script>", "coding: utf-7", "]:", "][",
         "\\u0041", "\\x41", "$", "!", ";", "|", "\n# ", "\nx = 1\n"]  # fmt: skip
NASTY = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)
TEXTS = EVERY | NASTY | st.tuples(EVERY, NASTY, EVERY).map("".join)
EACH = ["", " ", "  ", *WORDS, "".join(WORDS), *(f"{word}\n$(touch OWNED)" for word in WORDS)]
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROL = {*map(chr, range(32)), *map(chr, range(127, 160)), *BIDI, "\u2028", "\u2029"} - {"\n", "\t"}
MARKUP = (e.markup, e.attribute, e.xml_text)
ONE_LINE = (e.printable_line, e.comment_line, e.python_quoted, e.markdown_text, e.markdown_code, e.python_literal,
            e.toml_string, e.toml_key, e.jq_string)  # fmt: skip
EVERY_FUNCTION = (*MARKUP, *ONE_LINE, e.terminal_text, e.shell_word, e.markdown_block, e.python_name)


def is_safe(sign):
    return sign not in CONTROL and not "\ud800" <= sign <= "\udfff"


def shown(text, holds):
    """The text with a visible escape for every character that a target cannot hold."""
    return "".join(sign if holds(sign) else sign.encode("unicode_escape").decode() for sign in text)


def for_every_text(test):
    """Run a test for handpicked and drawn texts."""

    def each():
        for text in EACH:
            test(text)
        settings(max_examples=40)(given(TEXTS)(test))()

    each.__name__, each.__doc__ = test.__name__, test.__doc__
    return each


@for_every_text
def test_every_function_is_total_and_its_result_can_be_written(text):
    for function in EVERY_FUNCTION:
        function(text).encode("utf-8")
    for function in ONE_LINE:
        assert len(function(text).splitlines()) <= 1
    for function in (*MARKUP, *ONE_LINE[:6], e.terminal_text, e.markdown_block):
        assert all(map(is_safe, function(text)))


@pytest.mark.parametrize("text", [
    "", "a title, with 20 tokens (b11549): x-y.z", "größer 漢字 \U0001f600", "it's a_b @ #1",
])  # fmt: skip
def test_plain_text_is_unchanged(text):
    for function in (e.printable_line, e.terminal_text, e.markdown_text, e.xml_text, e.python_quoted):
        assert function(text) == text
    assert e.comment_line(text) == f"# {text}" and e.markdown_block(text, "sh").split("\n")[0] == "```sh"


@for_every_text
def test_a_terminal_gets_the_visible_text(text):
    assert e.terminal_text(text) == shown(text, is_safe)
    assert e.printable_line(text) == shown(text, str.isprintable)


def printed(texts, quotes):
    """What a shell prints for words, one call for all."""
    words = " ".join(e.shell_word(text, quotes) for text in texts)
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {words} end"], capture_output=True, check=True, env={}, cwd="/")
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-2]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=30), st.booleans())
def test_a_shell_reads_back_every_word(texts, quotes):
    """A shell holds all but NUL; a file in UTF-8 holds no surrogates."""
    assert printed(texts, quotes) == [shown(text, lambda sign: sign != "\0" and not "\ud800" <= sign <= "\udfff")
                                      for text in texts]  # fmt: skip


def test_no_word_of_a_shell_runs(tmp_path):
    done = subprocess.run(["sh", "-c", f"printf '%s\\0' {e.shell_command(EACH)}"], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr, done.stdout.count(b"\0")) == (0, b"", len(EACH))
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_a_comment_of_a_shell_ends_with_its_line(texts):
    lines = "\n".join(f"{e.comment_line(text)}\necho {number}" for number, text in enumerate(texts))
    done = subprocess.run(["sh", "-c", lines], capture_output=True, check=True, env={}, cwd="/", text=True)
    assert (done.stdout.split(), done.stderr) == ([f"{number}" for number, _ in enumerate(texts)], "")


def test_no_comment_of_a_shell_runs(tmp_path):
    lines = "\n".join(map(e.comment_line, EACH))
    done = subprocess.run(["sh", "-s"], input=lines.encode(), cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr, list(tmp_path.iterdir())) == (0, b"", b"", [])


@for_every_text
def test_python_reads_back_literals_docstrings_and_comments(text):
    """All three at once, in a file."""
    value = {"a": [text, (text, 1)], text: None}
    comment, inside = e.comment_line(text), e.python_quoted(text)
    program = f'"""{inside}"""\n\n{comment}\na = {e.python_literal(text)}  {comment}\nb = "{inside}"\n'
    program += f'c = f"{e.python_quoted(text, braces=True)}"\nd = {e.python_literal(value)}\n'
    program += f"def test_{e.python_name(text)}(): pass\n"
    tree = ast.parse(program.encode("utf-8"))
    assert [type(node).__name__ for node in tree.body] == ["Expr", *["Assign"] * 4, "FunctionDef"]
    assert ast.get_docstring(tree, clean=False) == text
    assert [ast.literal_eval(node.value) for node in (tree.body[1], tree.body[2], tree.body[4])] == [text, text, value]
    names = {}
    exec(compile(program.encode("utf-8"), "case", "exec"), names)
    assert names["c"] == text


@for_every_text
def test_toml_reads_back_strings_keys_and_comments(text):
    """TOML holds all but surrogates."""
    held = shown(text, lambda sign: not "\ud800" <= sign <= "\udfff")
    file = f"{e.comment_line(text)}\n{e.toml_key(text)} = {e.toml_string(text)}  {e.comment_line(text)}\n"
    file += f"[expect.{e.toml_string(text)}]\nx = 1\n"
    if text == "expect":
        return
    assert tomllib.loads(file) == {held: held, "expect": {held: {"x": 1}}}


@for_every_text
def test_json_reads_back_strings(text):
    assert json.loads(e.jq_string(text)) == shown(text, lambda sign: not "\ud800" <= sign <= "\udfff")


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq")
def test_jq_reads_back_strings():
    program = f"[{', '.join(map(e.jq_string, EACH))}]"
    done = subprocess.run(["jq", "-nc", program], capture_output=True, check=True)
    assert json.loads(done.stdout) == [shown(text, lambda sign: not "\ud800" <= sign <= "\udfff") for text in EACH]


def test_toml_strings_of_the_bmp_are_those_of_json():
    assert all(e.toml_string(text) == json.dumps(text) for text in ("", "a\"b\\c\n\t\0\x1b", "é漢"))


def test_markup_suits_both_kinds_of_quotes():
    assert e.markup("<'&\">") == "&lt;&#x27;&amp;&quot;&gt;" and e.markup("'\"", quotes=False) == "'\""


class Reader(HTMLParser):
    """Reads the elements, attributes and texts of a page."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, attrs))

    def handle_endtag(self, tag):
        self.found.append(f"/{tag}")

    def handle_data(self, data):
        if self.found and isinstance(self.found[-1], list):
            self.found[-1][0] += data
        else:
            self.found.append([data])

    def handle_comment(self, data):
        raise AssertionError(data)

    handle_decl = handle_pi = unknown_decl = handle_comment


@for_every_text
def test_html_reads_back_texts_and_attributes(text):
    reader = Reader()
    reader.feed(f'<p title="{e.attribute(text)}">{e.markup(text)}</p><b>{e.markup(text, quotes=False)}</b>')
    reader.close()
    held = shown(text, lambda sign: is_safe(sign) and sign not in "\ufffe\uffff")
    data = [[held]] if held else []
    assert reader.found == [("p", [("title", held)]), *data, "/p", ("b", []), *data, "/b"]


@for_every_text
def test_xml_reads_back_texts_and_attributes(text):
    held = shown(text, lambda sign: is_safe(sign) and sign not in "\ufffe\uffff")
    root = xml.etree.ElementTree.fromstring(f'<svg a="{e.attribute(text)}">{e.markup(text)}</svg>')
    assert (root.attrib, root.text or "", list(root)) == ({"a": held}, held, [])
    root = xml.etree.ElementTree.Element("svg", a=e.xml_text(text))
    assert xml.etree.ElementTree.fromstring(xml.etree.ElementTree.tostring(root)).attrib == {"a": held}


def inline(line):
    """The parts of a paragraph of Markdown."""
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("strikethrough")
    opened, inside, closed = markdown.parse(line)
    assert (opened.type, closed.type) == ("paragraph_open", "paragraph_close")
    return inside.children


@for_every_text
def test_markdown_text_is_one_text(text):
    parts = inline(f"x {e.markdown_text(text)} x")
    assert {part.type for part in parts} <= {"text", "text_special"}
    assert "".join(part.content for part in parts) == f"x {shown(text, str.isprintable)} x"


@for_every_text
def test_markdown_code_is_one_code(text):
    parts = inline(f"x {e.markdown_code(text)} x")
    assert [part.type for part in parts] == ["text", "code_inline", "text"]
    assert parts[1].content == (shown(text, str.isprintable) or " ")


@for_every_text
def test_a_block_of_markdown_ends_after_its_text(text):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    block, _, inside, _ = markdown.parse(f"{e.markdown_block(text, 'sh')}\n\nend\n")
    held = shown(text, is_safe)
    assert (block.type, block.info, inside.content) == ("fence", "sh", "end")
    assert block.content == (f"{held}\n" if held else "")


@pytest.mark.parametrize(("text", "word", "in_quotes"), [
    ("plain", "plain", "'plain'"), ("two words", "'two words'", "'two words'"),
    ("it's", "'it'\"'\"'s'", "'it'\"'\"'s'"),
    ("", "''", "''"),
])  # fmt: skip
def test_a_word_of_a_shell_is_quoted_if_it_must_be_or_shall_be(text, word, in_quotes):
    assert (e.shell_word(text), e.shell_word(text, quotes=True)) == (word, in_quotes)
