"""Tests of ``joined_cases``, with which a process of ``make test`` runs the cases of a test as one."""

from __future__ import annotations

import pytest

from tests.joined_cases import joined

FILE = """
import pytest

@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_small(number):
    if number == 4:
        pytest.skip("too large")
    assert number < 2

@pytest.mark.parametrize("number", [1, 2])
def test_with_a_fixture(number, tmp_path):
    pass

@pytest.mark.parametrize("number", [1, 2, pytest.param(3, marks=pytest.mark.xfail)])
def test_marked(number):
    pass

def test_alone():
    pass
"""


@pytest.fixture
def items(request, tmp_path):
    """Return the tests of a file."""
    path = tmp_path / "test_file.py"
    path.write_text(FILE, "utf-8")
    return list(pytest.Module.from_parent(request.session, path=path).collect())


def test_cases_that_need_nothing_of_pytest_are_joined(items):
    assert [item.name for item in joined(items, lambda: None)] == [
        "test_small", "test_with_a_fixture[1]", "test_with_a_fixture[2]", "test_marked", "test_marked[3]", "test_alone",
    ]  # fmt: skip


def test_every_failed_case_is_named(items):
    ends = []
    test = joined(items, lambda: ends.append(1))[0]
    with pytest.raises(BaseExceptionGroup, match="2 of 4 cases failed") as raised:
        test.obj()
    notes = [note for error in raised.value.exceptions for note in error.__notes__]
    assert notes == ["case test_small[2]", "case test_small[3]"] and len(ends) == 4
