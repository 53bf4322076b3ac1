"""Tests of step numbers and file names in recordings."""

from __future__ import annotations

import pytest

from cachesim.base.json_shapes import INT32, ShapeMismatch
from cachesim.replay.trace_format import NAME_BYTES, file_name, step_number


def refused(check, value):
    try:
        check(value)
    except ShapeMismatch:
        return True
    return False


@pytest.mark.parametrize("value", [0, 3, INT32, "3", "3.1", "123456789", "123456789.123456789"])
def test_the_number_of_a_step(value):
    assert not refused(step_number, value)


@pytest.mark.parametrize("value", [
    -1, INT32 + 1, True, 3.0, None, "", "3.", ".1", "3.1.2", "-3", " 3", "1234567890", "1.1234567890", "\u0663",
])  # fmt: skip
def test_what_is_no_number_of_a_step(value):
    assert refused(step_number, value)


@pytest.mark.parametrize(("name", "bad"), [
    ("a.bin", False), ("/tmp/x/a.bin", False), ("a" * NAME_BYTES, False), ("a" * (NAME_BYTES + 1), True),
    ("\u00e9" * 128, True), ("", True), ("x/", True), ("x/..", True), (".", True), ("a\nb", True),
])  # fmt: skip
def test_the_name_of_a_file(name, bad):
    assert refused(file_name, name) is bad
