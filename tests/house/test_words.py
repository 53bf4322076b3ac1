"""Printed text uses a single term for each concept. ``words.toml`` maps the words to avoid to replacements."""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from pathlib import Path
from typing import Iterable, Iterator

import pytest

from cachesim.engines.registry import profiles
from cachesim.engines.rule import RULES, rule_text
from cachesim.tools.rulebook.glossary import ALSO, FILE
from tests.house import checks

WORDS = tomllib.loads((Path(__file__).parent / "words.toml").read_text("utf-8"))
INSTEAD = {re.compile(pattern, re.I): better for pattern, better in WORDS["instead"].items()}
ROOMS = ("base", "cli", "judging", "pytest_plugin", "replay", "scenarios", "tools")
"""Rooms whose texts are printed."""


def said(text: str) -> list[str]:
    """What a text says that it should not, with the better word."""
    for name in WORDS["also"]:
        text = text.replace(name, "")
    return [f"{found[0]!r}: say {better}" for one, better in INSTEAD.items() if (found := one.search(text))]


def texts(module: checks.Module) -> Iterator[tuple[int, str]]:
    """Strings of a module that are no docstrings and no single words, such as keys, with their lines."""
    docs = checks.docstrings(module)
    for node in module.of(ast.Constant):
        if isinstance(node.value, str) and " " in node.value.strip() and id(node) not in docs:
            yield node.lineno, node.value


def bad_texts(modules: Iterable[checks.Module]) -> list[str]:
    """Return what the texts of modules say that they should not, with places."""
    found = [(f"{module.name}:{line}", text) for module in modules for line, text in texts(module)]
    if not said("\n".join(text for _, text in found)):           # one search of all texts, not one of each
        return []
    return [f"{place} {bad}" for place, text in found for bad in said(text)]


SENTENCES = [str(one.relative_to(checks.PACKAGE)) for one in sorted(checks.PACKAGE.glob("engines/**/sentences*.py"))]


@pytest.mark.parametrize("name", SENTENCES)
def test_sentences_of_rules(name):
    module = checks.parse((checks.PACKAGE / name).read_text("utf-8"), name)
    assert bad_texts([module]) == []


def test_docstrings_of_rules():
    for rules in profiles().values():
        rules.fields()
    shipped = {name: fn for name, fn in RULES.items() if fn.__module__.startswith("cachesim.")}
    words = {name: " ".join(inspect.cleandoc(rule_text(fn)).split()) for name, fn in shipped.items()}
    assert [f"{name} {bad}" for name, text in words.items() for bad in said(text)] == []


def test_the_glossary():
    """Old words may lead to an entry, and stand nowhere else in it."""
    lines = [line for line in FILE.read_text("utf-8").splitlines() if not line.startswith(ALSO)]
    assert said("\n".join(lines)) == []


PAGES = [str(page.relative_to(checks.ROOT)) for page in sorted((checks.PACKAGE / "pages").glob("*.md"))]
LESSONS = [str(one.relative_to(checks.ROOT)) for one in sorted((checks.ROOT / "scenarios" / "lessons").glob("*.md"))]
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "cachesim/ARCHITECTURE.md", "scenarios/README.md", *PAGES, *LESSONS]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_the_documents(name):
    assert said((checks.ROOT / name).read_text("utf-8")) == []


@pytest.mark.parametrize("room", ROOMS)
def test_texts_that_are_printed(room):
    modules = [one for one in checks.modules() if one.parts[0] == room]
    assert modules
    assert bad_texts(modules) == []


@pytest.mark.parametrize("text", [
    "1 checkpoint goes: number 3", "Value: is it?", "slot 0: used longest ago; the prompt cache is asked",
    "entry consumed (entry checkpoint)", "The companion alone is cleared", "the chunk goes from 40 to 104",
])  # fmt: skip
def test_the_old_words_are_found(text):
    assert said(text) != []


@pytest.mark.parametrize("text", [
    "no checkpoint needed: pos_min 0 < pos_min_thold 9", "--set companion_recurrent=true", "removed on load",
])
def test_the_words_of_the_field_are_not(text):
    assert said(text) == []
