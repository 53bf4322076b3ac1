"""The page about Python is correct: its reference is that of the docstrings, its session prints what it says."""

from __future__ import annotations

import doctest

import cachesim
from tests.docs import reference

TEXT = reference.PAGE.read_text("utf-8")


def test_every_public_name_and_member_has_a_docstring():
    assert reference.undocumented() == []


def test_the_reference_is_current():
    """``make docs`` renews it."""
    assert reference.renewed(TEXT) == TEXT
    assert [name for name in cachesim.__all__ if f"### `{name}`" not in TEXT] == []


def test_the_session_prints_what_it_says():
    parsed = doctest.DocTestParser().get_doctest(TEXT, {}, "python.md", str(reference.PAGE), 0)
    assert doctest.DocTestRunner(verbose=False).run(parsed) == (0, len(parsed.examples)) and len(parsed.examples) > 4
