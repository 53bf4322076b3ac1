"""Tests of client changes: the rewritten history, and None where the pattern is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.engines.registry import ENGINES
from cachesim.scenarios.notation.canonical_text import spell
from cachesim.scenarios.notation.parse import parse
from cachesim.scenarios.notation.word_lengths import normal
from cachesim.tools.advise.client_changes import (
    client_changes,
    conversations,
    keep_answers,
    load_of,
    marked,
    move_changing_last,
    parents,
    pinned,
    warmed,
)


def changed(change, text):
    """Return the changed line, None if the change has no effect."""
    line = change(parse(text))
    return None if line is None else spell(normal(line))


@pytest.mark.parametrize(("line", "whole"), [
    ("S9.u5>t4.a3/S.u.a.v2", "S9.u5>t4.a3/S.u.t.a.v2"),
    ("S9.u5>t4.a3/S.u.a.v2>r6.b3/S.u.a.v.b.w2", "S9.u5>t4.a3/S.u.t.a.v2>r6.b3/S.u.t.a.v.r.b.w2"),
    ("S9.u5>t4.a3/S.u.t.a.v2", None), ("S9.u5>t4/S.u.v2", None), ("S9.u5/S.u.v2", None),
    ("S9.u5>a8/S.u.a[5:].v2", "S9.u5>a_A5.a_B3/S.u.a_A.a_B.v2"),
    ("s:S9+u:u5>t4.a3/s:S+u:u+a:a+u:v2", "s:S9+u:u5>t4.a3/s:S+u:u+a:t.a+u:v2"),
    ("s:S9+u:u5>t4.a3/s:S+u:u+a:a+u:v2>b3/s:S+u:u+a:a+u:v+a:b+u:w2",
     "s:S9+u:u5>t4.a3/s:S+u:u+a:t.a+u:v2>b3/s:S+u:u+a:t.a+u:v+a:b+u:w2"),
    ("s:S9+u:u5>t4.a3/s:S+u:u+a:a+u:v2>b3/s:S+u:u+a:a+u:v+u:w2",
     "s:S9+u:u5>t4.a3/s:S+u:u+a:t.a+u:v2>b3/s:S+u:u+a:t.a+u:v+u:w2"),
    ("u:u5>t4.a3/u:u+a:a+u:v2>b3/u:u+a:a+u:v+a:x2+u:w2", "u:u5>t4.a3/u:u+a:t.a+u:v2>b3/u:u+a:t.a+u:v+a:x2+u:w2"),
    ("u5>t4.a3/u.a.v2>b3/u.a.v.w2", "u5>t4.a3/u.t.a.v2>b3/u.t.a.v.w2"),
    ("s:S9+u:u5>a3/s:S+u:u+u:v2", None), ("s:S9+u:u5>a3/s:S+u:u+a:a+u:v2", None), ("u:u5>a3/u:u.b4", None),
    ("u:u5>t4.a3/u:u+a:a.x4+u:v2", None), ("u:u5>t4.a3/u:u+a:x4+u:v2", None), ("u:u5>a3/u:u", None),
    ("u:u5>t4.a3/u:u+u:a+u:v2", None), ("u:u5>t4.a3.b2/u:u+a:t.b+u:v2", "u:u5>t4.a3.b2/u:u+a:t.a.b+u:v2"),
    ("u5>t4.a3.b2/u.t.b.v2", "u5>t4.a3.b2/u.t.a.b.v2"), ("u5>t4.a3/u.v2.a", None), ("u5>t4/u.|t.v2", None),
])  # fmt: skip
def test_answers_stay_whole(line, whole):
    assert changed(keep_answers, line) == whole


@pytest.mark.parametrize(("line", "last"), [
    ("h10.d2.S80/h.e2.S", "h10.S80.d2/h.S.e2"), ("d2.S80.u5/e2.S.u", "S80.u5.d2/S.u.e2"),
    ("A9.B8/A.c3.B", "A9.B8/A.B.c3"), ("S9.|a3.|c4/S.|e3.|c", "S9.|c4.|a3/S.|c.|e3"),
    ("S9.A5/S.B5", None), ("S9.A5.B6/S.B", None), ("S9>a3/S.a.v4/S.a.v.w2", None),
    ("s:d2.S9+u:u5/s:e2.S+u:u", "s:S9+u:u5.d2/s:S+u:u.e2"),
    ("s:d2.S9+a:b3+u:u5/s:e2.S+a:b+u:u", "s:S9+a:b3+u:u5.d2/s:S+a:b+u:u.e2"),
])  # fmt: skip
def test_what_changes_is_put_last(line, last):
    assert changed(move_changing_last, line) == last


@pytest.mark.parametrize(("line", "marks"), [
    ("S9.A5>r3/S.A.r.B5", "S9.|A5>r3/S.|A.r.|B5"), ("S9.A5/S.A[0:3]/S.A[3:]", "S9.|A5/S.|A[:3]/S.A[3:]"),
    ("S9.|A5/S.B5", None), ("S9/S", None), ("s:S9+u:A5", None),
])  # fmt: skip
def test_user_messages_are_marked_where_none_is(line, marks):
    assert changed(marked, line) == marks


def test_the_common_beginning_is_sent_before():
    assert changed(warmed, "S9.A5/S.B5/S.A.C2") == "S9/S.A5/S.B5/S.A.C2"
    assert changed(warmed, "S9.|A5.C2/S.A.D3") == "S9.|A5/S.|A.C2/S.A.D3"
    assert changed(warmed, "S9/S.B5") is None and changed(warmed, "A5/B5") is None


def test_conversations_get_slots_of_their_own():
    assert changed(pinned(2), "S9.A5/S.B5/S.A.C2/D3") == "S9.A5@0/S.B5@1/S.A.C2@0/D3@0"
    assert changed(pinned(2), "A5/A.B5") is None


def test_conversations_and_what_they_demand():
    line = parse("S9.A5>r3/S.B5/S.A.r.C2/{erase@0}/S.B.D4>6")
    assert list(conversations(line).values()) == [0, 1, 0, 1]
    assert load_of(line) == (24, 20 + 24, 2) and load_of(parse("u:>0")) == (0, 0, 1)


@pytest.mark.parametrize(("name", "line", "sent"), [
    ("cache_prompt", "A5!/A.B4!", "A5/A.B4"), ("cache_prompt", "A5/A.B4", None),
    ("no seed", "A5{seed=True}/A.B4", "A5/A.B4"), ("no seed", "A5/A.B4", None),
    ("one after another", "A5/A.B4{together}/A{together+3}", "A5/A.B4/A"), ("one after another", "A5/A.B4", None),
    ("no id_slot", "A5@1/A.B4", "A5/A.B4"), ("no id_slot", "A5/{erase@0}/A.B4", None),
])  # fmt: skip
def test_a_field_is_changed_in_every_request(name, line, sent):
    changes = {one.name: one for engine in ENGINES.values() for one in client_changes(engine.manual)}
    assert changed(changes[name].change, line) == sent


@pytest.mark.parametrize(("line", "sent"), [
    ("S9.A5/S.B5", "S9/S.A5/S.B5"), ("S9.A5/S.A.B5", None), ("S9.T4.A5/S.T.B5/S.C3", "S9/S.T4.A5/S.T.B5/S.C3"),
    ("s:S9+u:A5/s:S+u:B5", None), ("S9.A5/S.B5/u:C3", None), ("{erase@0}", None), ("S9.A5/S", None),
    ("S9.A5/{erase@0}/S.B5", "S9/S.A5/{erase@0}/S.B5"),
])  # fmt: skip
def test_a_beginning_that_all_conversations_share_is_sent_once(line, sent):
    assert changed(warmed, line) == sent


@pytest.mark.parametrize(("line", "whole"), [
    ("u5>t4.a3/u.a.t.v2", "u5>t4.a3/u.t.a.t.v2"), ("u5>t4.a3.b2/u.b.v2", "u5>t4.a3.b2/u.t.a.b.v2"),
    ("u5>t4.a3.b2/u.a.v2.b", "u5>t4.a3.b2/u.t.a.b.v2.b"), ("u5>t4.a3/u.t.a", None),
])  # fmt: skip
def test_the_pieces_of_an_answer_that_were_sent_back_have_its_order(line, whole):
    assert changed(keep_answers, line) == whole


@pytest.mark.parametrize(("line", "found"), [
    ("S9.A5/S.A/S.A.B5/S.B", [-1, 0, 1, -1]), ("S9/S/S.A4/S", [-1, 0, 1, 1]), ("A5/{erase@0}/A", [-1, 0]),
])  # fmt: skip
def test_a_request_continues_the_latest_of_the_longest_prompts_that_it_begins_with(line, found):
    assert list(parents(parse(line)).values()) == found


@pytest.mark.parametrize(("takes", "left_out"), [
    ((), {"no seed", "no id_slot", "mark messages"}), (("seed",), {"no id_slot", "mark messages"}),
    (("seed", "id_slot", "user_starts"), set()),
])  # fmt: skip
def test_only_fields_that_the_server_reads_are_changed(takes, left_out):
    manual = ENGINES["llama_cpp"].manual
    every = [one.name for one in client_changes(replace(manual, takes=frozenset({"seed", "id_slot", "user_starts"})))]
    names = [one.name for one in client_changes(replace(manual, takes=frozenset(takes)))]
    assert names == [name for name in every if name not in left_out] and len(every) == 10


def test_a_request_that_waits_for_the_answer_before_counts_no_rounds():
    change = next(one.change for one in client_changes(ENGINES["llama_cpp"].manual) if one.name == "one after another")
    assert [(step.together, step.after) for step in change(parse("A5/B4{together+3}")).steps] == [(False, 0)] * 2


def test_a_piece_from_its_first_token_on_begins_a_message():
    """A history of a client names the first token."""
    line = parse("S9.A5/S.A")
    step = line.steps[1]
    sliced = step._replace(prompt=(step.prompt[0], step.prompt[1]._replace(start=0, stop=3)))
    found = marked(line._replace(steps=(line.steps[0], sliced))).steps[1].prompt
    assert [piece.user for piece in found] == [False, True]
