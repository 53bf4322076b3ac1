"""Tests of JSON shapes: strict types, and single-line errors with a path."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import (
    INT64,
    anything,
    check,
    each,
    flag,
    integer,
    integers,
    number,
    one_of,
    optional,
    record,
    text,
)

POINT = record({"x": integer(0, 9), "name": text}, needs=("x",))


@pytest.mark.parametrize(("shape", "good", "bad"), [
    (flag, [True, False], [0, 1, "true", None]),
    (text, ["", "a"], [1, None, ["a"]]),
    (number, [1, 1.5, INT64, -INT64], [True, "1", INT64 + 1, -INT64 - 1, None]),
    (integer(), [0, 2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, 1.0, True, None]),
    (integer(0, 9), [0, 9], [-1, 10, 1.0, True, "1", None, 10**4000]),
    (integers(0, 9, "a digit"), [[], [0, 9]], [[10], [-1], [1.0], [True], ["1"], 3, None, [10**30]]),
    (optional(text), [None, "a"], [0, []]),
    (one_of(flag, text), [True, "a"], [0, None]),
    (each(flag), [[], [True]], [[0], {}, None]),
    (POINT, [{"x": 1}, {"x": 1, "name": "a"}], [{}, {"x": 1, "y": 2}, {"x": "1"}, [], None]),
    (record({}, others=anything), [{}, {"a": 1}], [[], 1]),
], ids=["flag", "text", "number", "64 bits", "integer", "integers", "optional", "one of", "each", "record",
        "open"])  # fmt: skip
def test_a_shape(shape, good, bad):
    for value in good:
        shape(value)
        check(value, shape)
    for value in bad:
        with pytest.raises(BadInput):
            check(value, shape)


@pytest.mark.parametrize(("value", "told"), [
    ({"p": [{"x": 1}, {"x": 10}]}, "f: p[1].x: expected an integer from 0 to 9, found 10"),
    ({"p": [{"x": 1, "nam": "a"}]}, "f: p[0]: unknown key 'nam' (did you mean 'name'?)"),
    ({"p": [{}]}, "f: p[0]: missing key 'x'"), ({"p": 1}, "f: p: expected a list, found 1"),
    (3, "f: expected an object, found 3"),
], ids=["value", "unknown", "missing", "list", "object"])  # fmt: skip
def test_the_place_is_named(value, told):
    with pytest.raises(BadInput) as caught:
        check(value, record({"p": each(POINT)}), "f")
    assert str(caught.value) == told


def test_a_long_value_or_key_makes_a_short_line():
    for value in ({"x": "y" * 10**5}, {"z" * 10**5: 1, "x": 1}, {"x": 1, "name": ["w" * 100] * 10**4}):
        with pytest.raises(BadInput) as caught:
            check(value, POINT, "f")
        assert len(str(caught.value)) < 250


def test_one_of_several_shapes_is_enough_and_the_last_raises_the_error():
    shape = one_of(flag, integer(0, 9, "a digit"), text)
    for value in (True, 3, "a"):
        shape(value)
    with pytest.raises(BadInput) as bad:
        check(None, shape)
    assert str(bad.value) == "expected a string, found None"
    with pytest.raises(BadInput) as bad:
        check(12, one_of(text, flag, integer(0, 9, "a digit")))
    assert str(bad.value) == "expected a digit, found 12"
