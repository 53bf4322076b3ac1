"""Axes of plots: places in proportion to numbers or their logarithms, round ticks, places apart for 0 and no limit."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from cachesim.tools.picture.plot_axis import Axis, AxisScale

LINEAR, LOG = Axis("tokens"), Axis("tokens", is_log=True)


def labels(scale):
    return [tick.says for tick in scale.ticks()]


def test_a_linear_axis_begins_at_0_and_a_logarithmic_one_at_its_least_number():
    linear, log = AxisScale(LINEAR, [20, 100], 0, 500), AxisScale(LOG, [1, 10, 100], 0, 500)
    assert [linear.px(value) for value in (0, 20, 100)] == [0, 100, 500]
    assert [log.px(value) for value in (1, 10, 100)] == [0, 250, 500]


def test_0_and_no_limit_stand_apart_on_a_logarithmic_axis():
    scale = AxisScale(LOG, [0, 1, 100, inf], 0, 572)
    assert [scale.px(value) for value in (0, 1, 10, 100, inf)] == [0, 36, 286, 536, 572]
    assert labels(scale) == ["0", "1", "2", "5", "10", "20", "50", "100", "no limit"]


def test_ticks_are_powers_of_two_or_round_numbers():
    assert labels(AxisScale(LOG._replace(doubles=True), [3, 40], 0, 1)) == ["4", "8", "16", "32"]
    assert labels(AxisScale(LOG, [6.15, 9.05], 0, 1)) == ["7", "8", "9"]
    assert labels(AxisScale(LINEAR, [7], 0, 1)) == ["0", "2", "4", "6"]


@given(st.lists(st.floats(0.001, 1e9), min_size=1), st.booleans())
def test_every_number_and_tick_lies_on_the_axis_in_order(numbers, is_log):
    scale = AxisScale(LOG if is_log else LINEAR, numbers, 0, 500)
    places = [scale.px(number) for number in sorted(numbers)]
    ticks = [tick.at for tick in scale.ticks()]
    assert places == sorted(places) and ticks == sorted(ticks) and 1 <= len(ticks) <= 20
    assert all(-0.1 <= place <= 500.1 for place in [*places, *ticks])
    assert scale.px(max(numbers)) == approx(500) or len({*numbers}) == 1
