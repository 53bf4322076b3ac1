"""Can every fault of the upper floors still be planted? Fast, so that it runs with all other tests."""

import ast

import pytest

from tests.meta.floors.fault import FLOORS
from tests.meta.floors.faults import FAULTS, GENERATED
from tests.meta.floors.generate import generated
from tests.meta.floors.plant import ROOT, Field


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_text_to_spoil_stands_once_in_its_file_and_the_fault_is_another_program(fault):
    spoilt = fault.planted(ROOT)
    assert fault.floor in FLOORS
    assert ast.unparse(ast.parse(spoilt)) != ast.unparse(ast.parse((ROOT / "cachesim" / fault.file).read_text()))


def test_every_fault_has_a_name_of_its_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)


def test_the_generated_ones_are_the_same_everywhere_and_of_their_own_seed():
    assert generated(ROOT) == GENERATED
    assert {fault.name for fault in generated(ROOT, seed=2)} != {fault.name for fault in GENERATED}


def test_a_fault_is_planted_in_its_copy_alone(tmp_path):
    field, fault = Field(tmp_path), FAULTS[0]
    with field.spoilt(fault) as copy:
        texts = [(root / "cachesim" / fault.file).read_text() for root in (ROOT, field.clean, copy)]
        assert (copy / "tests/unit").is_dir() and not (copy / "tests/meta").exists()
    assert [text == fault.planted(ROOT) for text in texts] == [False, False, True]
