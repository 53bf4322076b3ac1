"""Tests of lines written by another thread: late or missing lines that are not a difference."""

from __future__ import annotations

import pytest

from cachesim.replay.late_log_lines import in_streams, too_early, without_cut_off

LATE = frozenset({"ckpt_create", "ckpt_evict", "ckpt_invalidate", "ckpt_restore"})
RELEASE = {"ev": "release"}


def ckpt(kind, pos_max, **more):
    return {"ev": f"ckpt_{kind}", "pos_max": pos_max, **more}


MADE = [RELEASE, ckpt("create", 391)]


@pytest.mark.parametrize(("following", "proved"), [
    ([], False),
    ([ckpt("invalidate", 391)], True),
    ([{"ev": "launch"}, ckpt("create", 461), ckpt("evict", 381), ckpt("restore", 391)], True),
    ([ckpt("invalidate", 390)], False),
    ([ckpt("create", 391), ckpt("invalidate", 391)], False),
    ([ckpt("invalidate", 391, slot=1)], False),
])
def test_a_line_that_was_cut_off_is_proved_by_its_use_before_it_is_made_again(following, proved):
    assert without_cut_off(MADE, [RELEASE], LATE, following) == ([RELEASE] if proved else MADE)


@pytest.mark.parametrize(("used", "kept"), [((391,), 3), ((392,), 2), ((391, 392), 1), ((), 3)])
def test_lines_are_cut_off_from_the_end(used, kept):
    """Without a proof that the last line was made, those before it are not left out either."""
    ours = [RELEASE, ckpt("create", 391), ckpt("create", 392)]
    assert without_cut_off(ours, [RELEASE], LATE, [ckpt("invalidate", pos) for pos in used]) == ours[:kept]


def test_nothing_is_left_out_where_nothing_lacks():
    assert without_cut_off(MADE, MADE, LATE, [ckpt("invalidate", 391)]) == MADE


ONE_KIND = frozenset({"ckpt"})


def log(*names):
    """Events by name; ``ckpt`` is written late, with its number as pos_max."""
    numbers = iter(range(9))
    return [{"ev": one, "pos_max": next(numbers)} if one == "ckpt" else {"ev": one} for one in names]


@pytest.mark.parametrize(("recorded", "early"), [
    (("a", "ckpt", "b", "c"), False), (("a", "b", "ckpt", "c"), False), (("a", "b", "c", "ckpt"), False),
    (("ckpt", "a", "b", "c"), True), (("a", "b", "c"), False),
])  # fmt: skip
def test_a_line_may_be_late_and_not_early(recorded, early):
    """Our log has the line after the first event."""
    found = too_early(log(*recorded), log("a", "ckpt", "b", "c"), ONE_KIND)
    assert found == ({"event": 0, "recorded": {"ev": "ckpt", "pos_max": 0}, "ours": {"ev": "ckpt", "pos_max": 0},
                      "why": "written before it happened"} if early else None)  # fmt: skip


def test_every_late_line_is_compared_with_its_own_event():
    ours = log("a", "ckpt", "b", "b", "ckpt")
    assert too_early(log("a", "b", "b", "ckpt", "ckpt"), ours, ONE_KIND) is None
    found = too_early(log("a", "ckpt", "b", "ckpt", "b"), ours, ONE_KIND)
    assert (found["event"], found["ours"]["pos_max"]) == (2, 1)


def test_each_stream_keeps_its_order():
    events = log("ckpt", "a", "ckpt", "b")
    assert [one.get("pos_max", one["ev"]) for one in in_streams(events, ONE_KIND)] == ["a", "b", 0, 1]
