"""Every fault that a person wrote can still be planted: its text occurs once in its module."""

import ast
from itertools import zip_longest

import pytest

from tests.meta.people.faults import EARLIER, LISTS, people_faults, survivors
from tests.shared import ROOT

FAULTS = people_faults((*LISTS, *EARLIER))


def statements(text):
    """Yield the statements of a module as texts of their trees: those after the first difference are not needed."""
    return map(ast.dump, ast.parse(text).body)


@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_the_text_to_replace_occurs_once_in_the_module(file):
    faults = [fault for fault in FAULTS if fault.file == file]
    text = (ROOT / "cachesim" / file).read_text("utf-8")
    assert [fault.name for fault in faults if text.count(fault.old) != 1] == []
    tree = [*statements(text)]
    for fault in faults:
        changed = statements(text.replace(fault.old, fault.new))
        assert any(a != b for a, b in zip_longest(tree, changed)), fault.name


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


def test_survivors_are_faults_of_the_lists():
    assert set(survivors()) <= {fault.name for fault in people_faults()}
