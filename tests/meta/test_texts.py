"""Every fault can still be planted: its text occurs once. Fast, so that it runs with all other tests (`make meta` runs
rarely)."""

import ast
from functools import cache
from importlib import import_module

import pytest

from tests.meta.plant import ROOT, holders


@cache
def statements(text):
    """Return a program without its comments and line breaks."""
    return ast.unparse(ast.parse(text))


@pytest.fixture(scope="module")
def faults():
    """The module of the faults. Only the process that runs these tests generates them."""
    return import_module("tests.meta.faults")


@pytest.mark.long
def test_the_text_to_replace_occurs_once_in_the_engine(faults):
    for fault in faults.FAULTS:
        texts = [path.read_text() for path in holders(ROOT, fault.engine, fault.old)]
        assert [text.count(fault.old) for text in texts] == [1], fault.name
        assert statements(texts[0]) != statements(texts[0].replace(fault.old, fault.new)), fault.name
