"""Checkpoint lines that another thread writes: when is one that lacks no difference?"""

from __future__ import annotations

import pytest

from cachesim.live.streams import without_cut_off

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


def test_nothing_is_left_out_where_nothing_lacks():
    assert without_cut_off(MADE, MADE, LATE, [ckpt("invalidate", 391)]) == MADE
