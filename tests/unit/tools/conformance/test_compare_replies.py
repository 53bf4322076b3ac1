"""Tests of fingerprints: comparison, distance and display of all kinds."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.conformance import conform, identical, near
from cachesim.tools.conformance.compare_replies import Difference, agree, difference, equal, shown
from cachesim.tools.conformance.protocol import Reply
from tests.conformance.naive import FixedCache, NaiveCache


class Tensor:
    """An array like those of torch and MLX, which compare element by element."""

    def __init__(self, numbers):
        self.numbers, self.shape = numbers, (len(numbers),)

    def tolist(self):
        return list(self.numbers)

    def __eq__(self, other):
        return Tensor([a == b for a, b in zip(self.numbers, other.numbers, strict=True)])

    def __bool__(self):
        raise ValueError("the truth of several numbers is ambiguous")


@pytest.mark.parametrize(("first", "second", "same"), [
    (1.5, 1.5, True), ("ab", "ab", True), ("ab", "ac", False), (math.nan, math.nan, True), (math.nan, 1.0, False),
    (np.arange(3.0), np.arange(3.0), True), (np.arange(3.0), np.arange(4.0), False),
    (np.array([1, math.nan]), np.array([1, math.nan]), True), (np.zeros((1, 3)), np.zeros(3), False),
    (Tensor([1, 2]), Tensor([1, 2]), True), (Tensor([1, 2]), Tensor([1, 3]), False),
    ([Tensor([1]), "x"], [Tensor([1]), "x"], True), ({"a": Tensor([1])}, {"a": Tensor([2])}, False),
])  # fmt: skip
def test_fingerprints_of_every_kind_are_compared(first, second, same):
    assert identical(first, second) is same


def test_what_cannot_be_compared_is_refused_in_a_line():
    class Odd:
        def __eq__(self, other):
            raise RuntimeError("different devices")

    with pytest.raises(BadInput, match="fingerprints of type Odd cannot be compared with ==: different devices"):
        identical(Odd(), Odd())
    with pytest.raises(BadInput, match=r"same: <lambda>\(\) of two fingerprints failed: KeyError"):
        agree(lambda a, b: {}[a], 1, 2)


@pytest.mark.parametrize("array", [np.array, Tensor, list])
def test_an_array_as_a_fingerprint_finds_the_fault(array):
    class Logits(NaiveCache):
        def complete(self, prompt, n_predict):
            reply = super().complete(prompt, n_predict)
            number = int(reply["fingerprint"], 16)
            return {**reply, "tokens": None, "fingerprint": array([number % 1_000 / 8, 0.5])}

    report = conform(Logits, max_examples=5, check=False)
    assert report["repeat"].finding.line == "A2/A"
    (note,) = [note for note in report["repeat"].finding.notes if "difference" in note]
    assert note.startswith("largest difference ") and note.endswith(" at index 0 of 2")


@pytest.mark.parametrize(("first", "second", "text"), [
    ([1.0, 2.0, 3.0], [1.0, 2.5, 3.0], "largest difference 0.5 at index 1 of 3"),
    (1.0, 1.25, "largest difference 0.25"),
    (np.zeros(2), np.zeros(3), "shape [2] (cold) and [3]"),
    ("a" * 100, "a" * 90 + "b" * 10, "first difference at character 90 of 100"),
])  # fmt: skip
def test_how_far_they_are_apart(first, second, text):
    assert difference(first, second).text == text


def test_of_short_texts_and_other_objects_nothing_is_said():
    assert difference("ab", "ac") is None and difference({"a": 1}, {"a": 2}) is None and difference(1, 2) is None
    assert difference([1.0, math.nan], [1.0, 2.0]).text == "largest difference nan at index 1 of 2"


def test_equal_infinite_numbers_do_not_differ_and_cause_no_warning():
    with np.errstate(all="raise"):
        assert difference([math.inf, 1.0], [math.inf, 3.0]).text == "largest difference 2 at index 1 of 2"
        assert difference([math.inf], [-math.inf]).text == "largest difference inf"


def test_a_tolerance_is_absolute_and_for_every_number():
    close = near(0.01)
    assert close([1.0, 5.0], [1.005, 5.0]) and close(np.zeros(3), np.full(3, -0.01))
    assert not close([1.0, 5.0], [1.0, 5.02]) and not close([1.0], [1.0, 2.0]) and not close([1.0], [math.nan])
    assert close("ab", "ab") and not close("ab", "ac")
    with pytest.raises(BadInput, match="tolerance of at least 0"):
        near(-1)


@pytest.mark.parametrize(("warm", "same", "holds"), [
    (Reply((1, 2), [0.5]), identical, True), (Reply((1, 3), [0.5]), identical, False),
    (Reply((1, 3), [0.5]), near(0.1), False),             # equal numbers do not lead to another token
    (Reply((1, 3), [0.51]), near(0.1), True),             # two tokens were almost equally likely
    (Reply((1, 2), [0.7]), near(0.1), False), (Reply((1, 3)), near(0.1), False),
])  # fmt: skip
def test_tokens_may_differ_where_fingerprints_are_near(warm, same, holds):
    assert equal(warm, Reply((1, 2), [0.5]), same) is holds


def test_the_largest_difference_is_reported_where_it_is_allowed():
    class Rounds(FixedCache):
        def complete(self, prompt, n_predict):
            reply = super().complete(prompt, n_predict)
            return {**reply, "fingerprint": [1.0, 1.0 + 1e-9 * min(reply["cached"], 5)]}

    report = conform(Rounds, max_examples=30, same=near(1e-6))
    assert "with reuse; largest difference 5e-09 at index 1 of 2" in str(report)
    assert report["steady"].why == ""


def test_fingerprints_are_shown_short():
    assert shown(np.arange(6.0).reshape(2, 3)) == "float64[2, 3]: 0, 1, 2, 3, ..."
    assert shown(Tensor([1, 2])) == "array[2]: 1, 2"
    assert shown("ab" * 20) == "ab" * 20
    assert len(shown("ab" * 200)) == 80


@pytest.mark.parametrize(("a", "b", "is_near"), [
    ([1.0, 2.0], [1.5, 2.0], True), ([1.0, 2.0], [1.6, 2.0], False), ("text", "text", True), ("text", "other", False),
    ({"a": 1}, {"a": 1}, True), ({"a": 1}, {"a": 1.5}, False), ([1], [1, 1], False), (None, None, True),
])  # fmt: skip
def test_near_values_differ_by_at_most_the_tolerance_and_others_not_at_all(a, b, is_near):
    assert near(0.5)(a, b) is is_near


class Far:
    """A fingerprint that computes its distance itself."""

    def __init__(self, number):
        self.number = number

    def differs_from(self, cold):
        return Difference(abs(self.number - cold.number), "by itself")


def test_a_type_may_compute_its_distance_itself():
    assert difference(Far(1), Far(4)) == Difference(3, "by itself")
    assert difference(Far(1), 4.0) is None and difference(4.0, Far(1)) is None
    assert near(3)(Far(1), Far(4)) and not near(2)(Far(1), Far(4))


@pytest.mark.parametrize(("first", "second", "largest", "text"), [
    (np.array([math.nan, 2.0]), np.array([math.nan, 2.5]), 0.5, "largest difference 0.5 at index 1 of 2"),
    ([Tensor([1.0, 2.0]), Tensor([3.0, 4.0])], [Tensor([1.0, 2.0]), Tensor([3.0, 4.25])], 0.25,
     "largest difference 0.25 at index 3 of 4"),
    ([1.0, 1.5], [3.0, 1.0], 2.0, "largest difference 2 at index 0 of 2"),
])  # fmt: skip
def test_the_place_of_the_largest_difference(first, second, largest, text):
    assert difference(first, second) == Difference(largest, text)


@pytest.mark.parametrize(("first", "second"), [
    ([], []), (b"ab", b"ac"), (None, 1.0), (["x"], ["y"]), ([1.0, [2.0]], [1.0, [2.0]]), ([10**400], [1]), (True, 2.0),
    ("ab" * 999, [1.0]), ([1.0], "ab" * 999),
])  # fmt: skip
def test_of_what_has_no_numbers_the_distance_is_unknown(first, second):
    assert difference(first, second) is None


@pytest.mark.parametrize(("first", "second", "text"), [
    ("a" * 80, "b" * 80, None), ("a" * 81, "a" * 80, "first difference at character 80 of 81"),
    ("a" * 80, "a" * 81, "first difference at character 80 of 80"),
])  # fmt: skip
def test_the_place_is_stated_of_texts_that_are_not_shown_whole(first, second, text):
    found = difference(first, second)
    assert (found.text if found else None) == text and (found is None or math.isnan(found.largest))


def test_an_error_of_the_comparison_is_named_with_its_function():
    def compare(first, second):
        raise BadInput("not these")

    class Compare:
        def __call__(self, first, second):
            raise ValueError("shapes")

    with pytest.raises(BadInput, match=r"^not these$"):
        agree(compare, 1, 2)
    with pytest.raises(BadInput, match=r"^same: Compare\(\) of two fingerprints failed: ValueError: shapes$"):
        agree(Compare(), 1, 2)
    assert agree(lambda first, second: 3, 1, 2) is True
    assert near(0)(1.0, 1.0) and not near(0)(1.0, 1.5)


def test_the_first_four_numbers_of_an_array_are_shown():
    assert shown(np.arange(4.0)) == "float64[4]: 0, 1, 2, 3"
    assert shown(np.array([0.1234567])) == "float64[1]: 0.123457"
    assert shown(np.array(["x"])).startswith("<U1[1]: ") and shown(None) == "None"


class Shaped:
    """An object with a shape, but without a list of its numbers."""

    shape = (2,)

    def __str__(self):
        return "a box"


def test_an_object_with_a_shape_or_a_list_alone_is_not_an_array():
    box, numbers = Shaped(), array("d", [1.0, 2.0])
    assert identical(box, box) and not identical(box, Shaped()) and shown(box) == "a box"
    assert identical(numbers, array("d", [1.0, 2.0])) and not identical(numbers, array("d", [1.0, 3.0]))
    assert shown(numbers) == "array('d', [1.0, 2.0])"


@pytest.mark.parametrize(("left", "right"), [([1.0], 1.0), (1.0, [1.0]), ([], None), ("a", ["a"]), ((1,), 1)])
def test_a_list_is_not_identical_with_a_single_value(left, right):
    assert not identical(left, right) and not identical(right, left)
