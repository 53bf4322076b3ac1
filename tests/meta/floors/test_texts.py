"""Every fault of the packages above the engines can still be planted. Fast, so that it runs with all other tests."""

import ast
from functools import cache
from importlib import import_module

import pytest

from tests.meta.floors.fault import FLOORS
from tests.meta.floors.generate import generated
from tests.meta.floors.plant import ROOT, Field


@cache
def statements(text):
    """Return (lines, syntax tree) of each statement at the top level of a program."""
    lines = text.splitlines()
    begins = ((min(part.lineno for part in (node, *getattr(node, "decorator_list", ()))), node)
              for node in ast.parse(text).body)  # fmt: skip
    return [(lines[begin - 1 : node.end_lineno], node) for begin, node in begins]


def is_same_program(first, second):
    """True if two programs differ in comments and line breaks only. Trees are compared where the lines differ."""
    pairs = zip(statements(first), statements(second), strict=False)
    return len(statements(first)) == len(statements(second)) and all(
        lines == others or ast.dump(node) == ast.dump(other) for (lines, node), (others, other) in pairs
    )


@pytest.fixture(scope="module")
def faults():
    """The module of the faults. Only the process that runs these tests generates them."""
    return import_module("tests.meta.floors.faults")


@pytest.mark.long
def test_the_text_to_replace_occurs_once_and_changes_the_program(faults):
    for fault in faults.FAULTS:
        spoilt = fault.planted(ROOT)
        assert fault.floor in FLOORS, fault.name
        text = (ROOT / "cachesim" / fault.file).read_text()
        assert not is_same_program(text, spoilt), fault.name


@pytest.mark.parametrize("second, same", [
    ("@one(2)\ndef f():\n    return 1\n", False), ("@one(1)\ndef f():\n    return 2\n", False),
    ("@one(1)\ndef f():\n    return 1\nx = 1\n", False), ("@one(1)\ndef f():  # why\n    return (1)\n", True),
])
def test_comments_and_line_breaks_are_no_change(second, same):
    assert is_same_program("@one(1)\ndef f():\n    return 1\n", second) == same


def test_fault_names_are_unique(faults):
    assert len({fault.name for fault in faults.FAULTS}) == len(faults.FAULTS)


def test_generated_faults_are_reproducible_and_depend_on_the_seed(faults):
    assert generated(ROOT) == faults.GENERATED
    assert {fault.name for fault in generated(ROOT, seed=2)} != {fault.name for fault in faults.GENERATED}


@pytest.mark.long
def test_a_fault_is_planted_only_in_its_copy(faults, tmp_path):
    field, fault = Field(tmp_path), faults.FAULTS[0]
    with field.spoilt(fault) as copy:
        texts = [(root / "cachesim" / fault.file).read_text() for root in (ROOT, field.clean, copy)]
        assert (copy / "tests/unit").is_dir() and not (copy / "tests/meta").exists()
    assert [text == fault.planted(ROOT) for text in texts] == [False, False, True]
