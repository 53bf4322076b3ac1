"""Tests of client changes in the middle of prompts: text is sent as before, in the same order, or not changed."""

from __future__ import annotations

import pytest

from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.tools.advise import changed_middle
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
    ("S9.b5/S.x3.b.v2", None),                                               # that was added
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
    ("S9.t4.w5.x3/S.w.q4.x.t.v2", None),                                     # a part that comes later
])  # fmt: skip
def test_parts_are_sent_in_the_same_order(line, sent):
    assert changed(sort_parts, line) == sent


def test_a_prompt_that_continues_one_of_several_before_it_is_sent_as_it_is():
    """Also if it does not continue the others."""
    assert changed(send_unchanged, "A9.B5/h10.d2.S80/h.d.S.u9/h.e2.S.u.v4") == "A9.B5/h10.d2.S80/h.d.S.u9/h.d.S.u.v4"
    assert changed(send_unchanged, "h10.d2.S80/h.e2.S80.u9/h.e.S.u.v3") == "h10.d2.S80/h.d.S.u9/h.d.S.u.v3"
    assert changed(send_unchanged, "h10.d2.S80/A9/A.c3/h.d.S.u9") is None
    assert changed(send_unchanged, "h10.d2.S80/h.e2.S/h.d.S.u9") is None
    assert changed(send_unchanged, "h10.d2.S80/h.d/h.d.S.e2") is None


@pytest.mark.parametrize(("tokens", "is_sorted"), [(20, True), (21, False)])
def test_three_quarters_of_the_tokens_in_another_order_must_be_the_same(tokens, is_sorted):
    """60 tokens are the same, and the last part is another text of the same length."""
    line = f"S9.a30.b30.c{tokens}.x3/S.b.a.d{tokens}.x.v2"
    assert changed(sort_parts, line) == (line.replace("b.a.d", "a.b.c").replace(f"c{tokens}.x.v2", "c.x.v2")
                                         if is_sorted else None)  # fmt: skip


def test_parts_that_stayed_at_their_place_do_not_count():
    """The first part is at its place; of the 80 tokens after it 60 are the same, or 59 of 79."""
    assert changed(sort_parts, "S9.k7.a30.b30.c20.x3/S.z7.b.a.d20.x.v2") is None
    assert changed(sort_parts, "S9.a30.b30.c20.x3/S.b.a.c.x.v2") == "S9.a30.b30.c20.x3/S.a.b.c.x.v2"


def test_a_prompt_with_many_changed_texts_is_left_as_it_is(monkeypatch):
    line = "S9.a5.b4.c3.d6/S.x5.b.y3.d.v2"
    for regions, sent in ((3, "S9.a5.b4.c3.d6/S.a.b.c.d.v2"), (2, None), (1, None)):
        monkeypatch.setattr(changed_middle, "REGIONS", regions)
        assert changed(send_unchanged, line) == sent


@pytest.mark.parametrize(("line", "sent"), [
    ("h10.d2.S80/h.e2.S.u9", "h10.S80.d2/h.S.u9.e2"),
    ("h10.d2.S80/z9/h.e2.S.u9", "h10.S80.d2/z9/h.S.u9.e2"), ("z9/h10.d2.S80/h.e2.S.u9", "z9/h10.S80.d2/h.S.u9.e2"),
    ("s:S9.d2.T4+u:A5/s:S.e2.T+u:A+a:B4+t:C3", "s:S9.T4+u:A5.d2/s:S.T+u:A+a:B4+t:C3.e2"),
])  # fmt: skip
def test_a_text_is_compared_with_the_prompt_that_begins_most_like_it(line, sent):
    assert changed(changed_middle.move_changing_last, line) == sent
