"""Power of the histories: each known defect shows as a wrong answer within a stated number of histories."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from tests.properties.histories import histories, keen, short_histories
from tests.properties.test_server_histories import play

pytestmark = pytest.mark.long


# kind, profile, --swa-full, sufficient number of histories: the defects D1, erosion, D5, narrow window data, and HW
DEFECTS = [
    ("R", "b10587", False, 300),
    ("H", "b9518", False, 300),
    ("W", "b10587", False, 300),
    ("W", "b10587", True, 50),
    ("W", "b9518", False, 50),
    ("W", "b9473", False, 50),
]


def broken(kind, profile, swa_full, options, history):
    return any(talk.right(answer) is False for talk, answer in play(kind, profile, options, history, swa_full))


def found_within(examples, condition):
    few = settings(max_examples=examples, database=None, phases=[Phase.generate])
    try:
        find(st.tuples(keen, histories | short_histories), condition, settings=few, random=Random(1))
    except NoSuchExample:
        return False
    return True


@pytest.mark.parametrize("kind, profile, swa_full, examples", DEFECTS)
def test_a_known_defect_is_found(kind, profile, swa_full, examples):
    assert found_within(examples, lambda drawn: broken(kind, profile, swa_full, *drawn))


def test_without_a_defect_nothing_is_found():
    assert not found_within(40, lambda drawn: broken("R", "24035-v3", False, *drawn))
