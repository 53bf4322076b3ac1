"""Points on a main branch: their order, their names, and the points of changes in parts."""

from __future__ import annotations

import pytest

from cachesim.engines.shared.rule_set import Change
from cachesim.engines.shared.timeline import UNKNOWN, Commit, Timeline

ONE, TWO = Commit(1, "2026-01-02"), Commit(2, "2026-01-03")
WHEN = Timeline(landed={"#1": ONE, "#2": TWO}, builds=True)


@pytest.mark.parametrize("point, another, is_by", [
    (ONE, TWO, True), (ONE, ONE, True), (TWO, ONE, False), (Commit(2, "2026-01-01"), ONE, False),
    (Commit(UNKNOWN, "2026-01-02"), ONE, True), (Commit(UNKNOWN, "2026-01-03"), ONE, False),
    (ONE, Commit(UNKNOWN, "2026-01-01"), False),
])  # fmt: skip
def test_numbers_order_points_and_dates_those_without_a_number(point, another, is_by):
    assert point.by(another) is is_by


def test_a_change_in_parts_lands_with_its_last_part():
    change = Change("size", "1", "2", "#1, #2")
    assert WHEN.last_landed(change) == TWO
    unknown = change._replace(source="#1, #9")
    assert (WHEN.parts("#1, #9"), WHEN.last_landed(unknown)) == ([], None)


def test_a_point_gets_its_date_from_a_change_that_landed_there():
    assert WHEN.dated(Commit(2, "")) == TWO and WHEN.dated(Commit(7, "")) == Commit(7, "")
    assert WHEN.dated(Commit(2, "2025-01-01")) == Commit(2, "2025-01-01")


def test_a_point_is_named_by_its_build_or_its_date():
    assert (WHEN.label(ONE), WHEN.label(Commit(UNKNOWN, "2026-01-02"))) == ("b1", "2026-01-02")
    assert Timeline().label(ONE) == "2026-01-02"
