"""Every fault can still be planted: its text occurs once. Fast, so that it runs with all other tests (`make meta` runs
rarely)."""

import ast
from functools import cache

import pytest

from tests.meta.faults import FAULTS, GENERATED
from tests.meta.generate import generated
from tests.meta.plant import ROOT, holders


@cache
def statements(text):
    """Return a program without its comments and line breaks."""
    return ast.unparse(ast.parse(text))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_to_replace_occurs_once_in_the_engine(fault):
    (path,) = holders(ROOT, fault.engine, fault.old)
    text = path.read_text()
    assert text.count(fault.old) == 1
    assert statements(text) != statements(text.replace(fault.old, fault.new))


def test_generated_faults_are_reproducible_and_depend_on_the_seed():
    assert generated(ROOT) == GENERATED
    assert {fault.name for fault in generated(ROOT, seed=2)} != {fault.name for fault in GENERATED}
