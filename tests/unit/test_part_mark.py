"""Tests of the mark ``part(n)``, which leaves cases of a test to ``make long``."""

from __future__ import annotations

import pytest

from tests.conftest import pytest_collection_modifyitems


class FakeItem:
    """Case of a test with a mark ``part(n)``, without one for None."""

    def __init__(self, nodeid, part):
        self.nodeid = nodeid
        self.part = None if part is None else pytest.mark.part(part).mark
        self.added = []

    def get_closest_marker(self, name):
        return self.part

    def add_marker(self, mark):
        self.added.append(mark.name)


def test_the_first_of_every_n_cases_stays_and_the_others_are_long():
    cases = [FakeItem(f"a.py::test_x[{number}]", 3) for number in range(7)]
    pytest_collection_modifyitems(cases)
    assert [case.added for case in cases] == [[], ["long"], ["long"], [], ["long"], ["long"], []]


def test_cases_of_each_test_are_counted_alone_and_unmarked_tests_stay():
    cases = [FakeItem("a.py::test_x[0]", 2), FakeItem("a.py::test_y[0]", 2), FakeItem("a.py::test_x[1]", 2),
             FakeItem("a.py::test_z", None)]  # fmt: skip
    pytest_collection_modifyitems(cases)
    assert [case.added for case in cases] == [[], [], ["long"], []]
