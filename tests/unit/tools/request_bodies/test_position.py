"""Positions at which two texts differ."""

from __future__ import annotations

import pytest

from cachesim.tools.request_bodies.body import AFTER, BEFORE, common_bytes, common_suffix, encoded, evidence


@pytest.mark.parametrize("a, b, characters, size", [
    ("abc", "abd", 2, 2), ("aé", "aè", 1, 2), ("aé", "ab", 1, 1), ("é", "é", 1, 2), ("a", "ab", 1, 1), ("", "x", 0, 0),
])  # fmt: skip
def test_bytes_in_common_may_end_within_a_character(a, b, characters, size):
    assert common_bytes(a, b, characters) == size


def test_a_lone_surrogate_has_three_bytes():
    assert len(encoded("\ud800")) == 3


@pytest.mark.parametrize("a, b, most, size", [
    ("xabc", "yabc", 9, 3), ("xabc", "yabc", 2, 2), ("abc", "abc", 9, 3), ("abc", "", 9, 0), ("abc", "abd", 9, 0),
    ("abc", "abc", 0, 0),
])  # fmt: skip
def test_a_common_suffix_is_limited(a, b, most, size):
    assert common_suffix(a, b, most) == size


def test_evidence_is_the_text_around_the_first_difference():
    same = "0123456789" * 3
    found = evidence(same + "a" * 99, same + "b", 30)
    assert found == (same[30 - BEFORE :], "a" * AFTER, "b") and evidence("xa", "xb", 1) == ("x", "a", "b")
