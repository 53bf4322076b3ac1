"""Every fault that a person wrote can still be planted: its text occurs once in its module."""

import ast

import pytest

from tests.meta.people.faults import EARLIER, LISTS, people_faults, survivors
from tests.shared import ROOT


@pytest.mark.parametrize("fault", people_faults((*LISTS, *EARLIER)), ids=lambda fault: fault.name)
def test_the_text_to_replace_occurs_once_in_the_module(fault):
    text = (ROOT / "cachesim" / fault.file).read_text("utf-8")
    assert text.count(fault.old) == 1
    assert ast.dump(ast.parse(text)) != ast.dump(ast.parse(text.replace(fault.old, fault.new)))


def test_names_are_unique():
    names = [fault.name for fault in people_faults((*LISTS, *EARLIER))]
    assert len(set(names)) == len(names)


def test_survivors_are_faults_of_the_lists():
    assert set(survivors()) <= {fault.name for fault in people_faults()}
