"""Sentence patterns that are ruled out, in Python and Markdown files and in scenarios.

`EXCEPTIONS` names the passages that may keep a pattern, each with its reason. The lessons set the tone and are exempt.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.house.checks import PACKAGE, ROOT, module_of

FOLDERS = ("cachesim", "tests", ".ci", "scenarios")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
WORDS = {
    "negated noun": re.compile(r"(?<!there )(?<!There )\b(?:is no [a-z]+|are none\b|is none\b)|\b[Nn]obody\b"),
    "told or wanted": re.compile(r"\b(?:is|are|was|were|be|been|being) (?:told|wanted)\b", re.I),
    "object first": re.compile(r"(?:^|[.:] )Of [a-z][^.:]{0,60} the\b"),
}
SUSPECT = re.compile(
    r"(?<!there )(?<!There )\b(?:is no [a-z]+|are none\b|is none\b)|\b[Nn]obody\b|\bOf [a-z][^.:]{0,60} the\b"
    r"|(?i:\b(?:is|are|was|were|be|been|being) (?:told|wanted)\b)")
"""Matches every text that one of ``WORDS`` matches, in code, too."""
IN_SUSPECT = ("is no ", "is none", "are none", "obody", "Of ",
              " told", " wanted", " Told", " Wanted", " TOLD", " WANTED")  # fmt: skip
"""Texts of which a text that ``SUSPECT`` matches has one: they are found sooner."""
FIRST = {
    "question": re.compile(r"[^.]*\?(?:\s|$)"),
    "the same": re.compile(r"(?:[Tt]he|Like the) same\b"),
    "third person": re.compile(r"(?:Returns|Raises)\b|[A-Z][a-z]+ [^.]*; (?:returns|raises) "),
    "predicate": re.compile(r"(?:Returns? )?[Ww]hether\b|Returns? True (?:if|unless)\b"),
}
PARAMETERS = ("one", "other")
MAY_MATCH = re.compile("|".join((
    rf"def \w+\([^)]*\b(?:{'|'.join(PARAMETERS)})\b",
    rf"""(?:^|:)\s*[rR]?["']+\s*(?:{'|'.join(pattern.pattern for pattern in FIRST.values())})""",
)), re.M)  # fmt: skip
"""Matches every file in which a pattern of ``FIRST`` or ``PARAMETERS`` may match: to parse one takes much longer."""

EXCEPTIONS = {
    "prompt_cache.py: _similar(one)": "code of a rule, whose grade depends on it",
    'child.py: """True if every user can read the source tree, which the child needs when it runs as nobody '
    '(uid 65534)."""': "the name of a user",
    'test_process.py: "0.1 I srv: see a.cpp:7: this is no message\\n"': "a line of a log",
    'test_template.py: "{{ tools is none }}"': "a template of Jinja",
}
"""``file: text`` of a passage -> why it stays; at most 20."""


def _prose(path):
    """Yield (line, text) of the prose in a file: docstrings, comments and strings with a space, or all of a page or
    scenario."""
    text = path.read_text("utf-8")
    if not any(word in text for word in IN_SUSPECT) or not SUSPECT.search(text):
        return                                          # to look through its lines takes longer
    if path.suffix in (".md", ".toml"):
        code = False
        for number, line in enumerate(text.splitlines(), 1):
            code ^= line.lstrip().startswith("```")
            if not code:
                yield number, line
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            for shift, line in enumerate(token.string.splitlines()):
                yield token.start[0] + shift, line


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
PARTS = (ast.stmt, ast.excepthandler, ast.match_case)


def _statements(node):
    """Yield a node and the statements in it, at any depth. To walk through expressions takes five times as long."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, PARTS):
            yield from _statements(child)


def passages(path):
    """Return (pattern, line, text) of every passage that matches a pattern."""
    found = [(name, number, line.strip()) for number, line in _prose(path)
             for name, pattern in WORDS.items() if pattern.search(line)]  # fmt: skip
    if path.suffix == ".py" and MAY_MATCH.search(path.read_text("utf-8")):
        tree = module_of(path).tree if PACKAGE in path.parents else ast.parse(path.read_text("utf-8"))
        nodes = [node for node in _statements(tree) if isinstance(node, (ast.Module, ast.ClassDef, *DEFINITIONS))]
        texts = [(node, text) for node in nodes if (text := ast.get_docstring(node))]
        found += [(name, node.body[0].lineno, text.splitlines()[0]) for node, text in texts
                  for name, pattern in FIRST.items() if pattern.match(" ".join(text.split()))]  # fmt: skip
        found += [("parameter", found.lineno, f"{node.name}({found.arg})") for node in nodes
                  if isinstance(node, DEFINITIONS) and node.name != "__eq__"
                  for found in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                  if found.arg in PARAMETERS]  # fmt: skip
    return found


@cache
def files():
    """Return all Python and Markdown files and scenarios of the project."""
    kinds = (".py", ".md", ".toml")
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    lessons = (ROOT / "scenarios" / "lessons").glob("*.md")
    return sorted({*found, *(ROOT / page for page in PAGES)} - {Path(__file__), *lessons})


@cache
def found_passages():
    """Return (path, pattern, line, text) of every passage in these files that matches a pattern."""
    return [(path, *passage) for path in files() for passage in passages(path)]


def test_files_are_found():
    assert len(files()) > 1200


def test_prose_follows_the_rules():
    found = [f"{path.relative_to(ROOT)}:{line}: {name}: {text}" for path, name, line, text in found_passages()
             if f"{path.name}: {text}" not in EXCEPTIONS]  # fmt: skip
    assert found == []


def test_exceptions_are_few_and_used():
    used = {f"{path.name}: {text}" for path, _, _, text in found_passages()}
    assert len(EXCEPTIONS) <= 20 and set(EXCEPTIONS) <= used and all(EXCEPTIONS.values())


@pytest.mark.parametrize(("source", "names"), [
    ('"""Is this a question? It is."""', ["question"]),
    ('"""A noun phrase."""\nx = 1  # nobody reads it', ["negated noun"]),
    ('"""The same, up to the last."""', ["the same"]),
    ('"""Text."""\ndef f(one): ...', ["parameter"]),
    ('"""Text. Of a log the first lines are read."""', ["object first"]),
    ('x = "the value is wanted"', ["told or wanted"]),
    ('"""Returns the slot."""', ["third person"]),
    ('"""Erase the slot; returns its number."""', ["third person"]),
    ('"""Whether the slot is idle."""', ["predicate"]),
    ('"""Return whether the slot is idle."""', ["predicate"]),
    ('"""True if the slot is idle."""\nx = y is None', []),
])
def test_patterns_are_found(tmp_path, source, names):
    (tmp_path / "a.py").write_text(source)
    assert [name for name, _, _ in passages(tmp_path / "a.py")] == names
