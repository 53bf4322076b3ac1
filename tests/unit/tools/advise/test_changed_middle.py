"""Tests of client changes in the middle of prompts: text is sent as before, in the same order, or not changed."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.tools.advise.changed_middle import send_unchanged, sort_parts


def changed(change, text):
    """Return the changed line, None if the change has no effect."""
    line = change(parse(text))
    return None if line is None else spell(normal(line))


@pytest.mark.parametrize(("line", "sent"), [
    ("h10.d2.S80/h.e2.S.u9", "h10.d2.S80/h.d.S.u9"),                         # a text that was replaced
    ("S9.r5.u4/S.u.v2", "S9.r5.u4/S.r.u.v2"),                                # that was removed
    ("S9.a5.b4.c3.d6/S.x5.b.y3.d.v2", "S9.a5.b4.c3.d6/S.a.b.c.d.v2"),        # two texts
    ("h10.d2.S80/h.e2.S.u9/h.f2.S.u.v9", "h10.d2.S80/h.d.S.u9/h.d.S.u.v9"),
    ("S9.a5.b4/S.x3.b", None),                                               # does not continue the earlier prompt
    ("S9.a5/S.b5", None), ("S9.a5/S.a.b4", None), ("A9.B5/C9.B.D4", None),
    ("S9.t4.w5.x3/S.w.t.x.v2", None),                                        # another order
])  # fmt: skip
def test_text_is_sent_as_before(line, sent):
    assert changed(send_unchanged, line) == sent


@pytest.mark.parametrize(("line", "sent"), [
    ("S9.t4.w5.x3/S.w.t.x.v2", "S9.t4.w5.x3/S.t.w.x.v2"),
    ("S9.t4.w5.y6.x3/S.y.w.t.x.v2", "S9.t4.w5.y6.x3/S.t.w.y.x.v2"),
    ("S9.t8.w9.x3/S.w[2:].t.x.v2", None),                                    # not all of it
    ("S9.t20.w20.x3/S.t[:2].w[2:].t.x.v2", "S9.t_A2.t_B18.w_A2.w_B18.x3/S.t_A.t_B.w_A.w_B.x.v2"),
    ("h10.d2.S80/h.e2.S.u9", None), ("S9.t4.w5/S.w.t", None),
])  # fmt: skip
def test_parts_are_sent_in_the_same_order(line, sent):
    assert changed(sort_parts, line) == sent


def test_a_prompt_that_continues_one_of_several_before_it_is_sent_as_it_is():
    """Also if it does not continue the others."""
    assert changed(send_unchanged, "A9.B5/h10.d2.S80/h.d.S.u9/h.e2.S.u.v4") == "A9.B5/h10.d2.S80/h.d.S.u9/h.d.S.u.v4"
    assert changed(send_unchanged, "h10.d2.S80/h.e2.S80.u9/h.e.S.u.v3") == "h10.d2.S80/h.d.S.u9/h.d.S.u.v3"
    assert changed(send_unchanged, "h10.d2.S80/A9/A.c3/h.d.S.u9") is None
    assert changed(send_unchanged, "h10.d2.S80/h.d/h.d.S.e2") is None
