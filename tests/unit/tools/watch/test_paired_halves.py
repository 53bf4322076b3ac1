"""Replies and log rows that are about the same request."""

from __future__ import annotations

import pytest

from cachesim.tools.watch.paired_halves import (
    NOT_APART,
    OF_LOG,
    PATIENCE,
    REFUSED,
    ClientHalf,
    LogHalf,
    PairedHalves,
    WaitingHalves,
    evidence,
    joined,
)
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, SERVER_LEFT, WHOLE

LOGGED = {"run": 0, "slot": 3, "task": 7, "lines": [1, 9], "again": 4, "change": "extends", "causes": [], "flags": [],
          "refused": False, "prompt": 12, "reused": 7, "evaluated": 5, "generated": 2, "end": WHOLE}  # fmt: skip
REPLY = {"prompt": 12, "reused": 7, "evaluated": 5, "generated": 2, "end": WHOLE, "status": 200, "note": ""}
NO_COUNTS = dict.fromkeys(("prompt", "reused", "evaluated", "generated"))


def client(slot=None, sent=0, ended=0, alike=None, **fields):
    return ClientHalf({**REPLY, **fields}, slot=slot, sent=sent, ended=ended, alike=alike)


def log(looks=0, **fields):
    return LogHalf({**LOGGED, **fields}, looks)


@pytest.mark.parametrize("status, is_refused", [(None, False), (200, False), (REFUSED - 1, False), (REFUSED, True)])
def test_a_refusal_is_a_status_from_400_on(status, is_refused):
    assert client(status=status).is_refused == is_refused


@pytest.mark.parametrize("fields, has_counts", [
    ({}, True), (NO_COUNTS, False), ({**NO_COUNTS, "evaluated": 0}, True), ({**NO_COUNTS, "generated": 0}, True),
    ({**NO_COUNTS, "prompt": 9}, False),
])  # fmt: skip
def test_a_finished_request_states_what_it_evaluated_or_generated(fields, has_counts):
    assert client(**fields).has_counts == has_counts


@pytest.mark.parametrize("slot, fields, shown, agreed", [
    (3, {}, {}, 5), (None, {}, {}, 4), (2, {}, {}, None), (3, {"reused": 6}, {}, None), (3, {"reused": None}, {}, 4),
    (3, {}, {"slot": None}, 4), (3, {}, {"reused": [7, 9]}, 4), (3, {}, {"reused": [5, 7]}, 4),
    (3, {}, {"reused": [8, 9]}, None), (3, {}, {"reused": [5, 6]}, None), (3, {}, {"reused": [None, 7]}, 4),
    (3, {}, {"reused": [7, None]}, 4), (3, {}, {"reused": [8, None]}, None),
    (None, NO_COUNTS, {}, None), (None, {**NO_COUNTS, "end": CLIENT_LEFT}, {}, None),
    (None, {**NO_COUNTS, "end": CLIENT_LEFT}, {"end": CLIENT_LEFT}, 0), (None, NO_COUNTS, {"end": CLIENT_LEFT}, None),
    (None, {}, {"end": CLIENT_LEFT}, None), (3, {}, {"refused": True}, None),
    (3, {**NO_COUNTS, "status": 400}, {}, None), (None, {**NO_COUNTS, "status": 400}, {"refused": True}, 0),
    (3, {**NO_COUNTS, "status": 400}, {"refused": True}, 1),
])  # fmt: skip
def test_halves_are_of_the_same_request_if_nothing_that_both_state_differs(slot, fields, shown, agreed):
    assert evidence(client(slot, **fields), log(**shown)) == agreed


def waiting(clients, logged, still_open=0):
    halves = WaitingHalves(clients, logged, still_open)
    return halves, list(halves.pairs())


def test_a_row_is_paired_with_the_reply_that_agrees_most_and_both_wait_no_longer():
    first, second, row = client(), client(slot=3), log()
    halves, found = waiting([first, second], [row])
    assert found == [PairedHalves(second, row)] and (halves.clients, halves.logged) == ([first], [])


def test_requests_in_sequence_have_the_order_of_their_rows():
    first, second = client(sent=1, ended=2), client(sent=3, ended=4)
    later, earlier, other_run = log(lines=[20, 29]), log(lines=[10, 19]), log(run=1, lines=[1, 2])
    _, found = waiting([second, first], [other_run, later, earlier])
    assert found == [PairedHalves(first, earlier), PairedHalves(second, later)]


def test_while_an_exchange_is_open_a_row_waits_for_a_look_at_the_log():
    assert waiting([client()], [log()], still_open=1)[1] == []
    assert len(waiting([client()], [log(looks=1)], still_open=1)[1]) == 1


@pytest.mark.parametrize("sent, is_certain", [(1, False), (2, False), (3, True)])
def test_requests_overlap_unless_one_ended_before_the_next_was_sent(sent, is_certain):
    _, found = waiting([client(sent=0, ended=2), client(sent=sent, ended=4)], [log()])
    assert [pair.client.alike for pair in found] == ([None] if is_certain else [])


def test_an_ambiguous_row_waits_for_the_other_row_for_a_few_looks():
    overlapping = [client(sent=1, ended=3), client(sent=2, ended=4)]
    assert waiting([*overlapping], [log(looks=PATIENCE - 1)])[1] == []
    halves, [pair] = waiting([*overlapping], [log(looks=PATIENCE)])
    assert pair.client is overlapping[0] and pair.client.alike == frozenset() == halves.clients[0].alike


def test_rows_of_other_requests_make_nothing_certain():
    overlapping = [client(sent=1, ended=3), client(sent=2, ended=4)]
    assert waiting([*overlapping], [log(looks=1), log(looks=1, reused=6)])[1] == []


def test_what_was_not_certain_when_rows_lacked_stays_so():
    overlapping = [client(sent=number, ended=9) for number in range(3)]
    halves, [first] = waiting([*overlapping], [log(looks=PATIENCE)])
    halves.logged += [log(task=8, lines=[10, 15]), log(task=9, lines=[16, 19])]
    assert [pair.client for pair in (first, *halves.pairs())] == overlapping
    assert {one.alike for one in overlapping} == {frozenset()}


def test_a_row_that_is_dropped_meanwhile_has_no_pair():
    halves = WaitingHalves([client(sent=1, ended=2), client(sent=3, ended=4)], [log(), log(lines=[10, 19])])
    pairs = halves.pairs()
    next(pairs)
    halves.logged.clear()
    assert list(pairs) == [] and len(halves.clients) == 1


def test_ambiguous_rows_state_what_is_equal_in_all_of_them():
    overlapping = [client(sent=1, ended=3), client(sent=2, ended=4)]
    _, pairs = waiting([*overlapping], [log(task=7, lines=[1, 5]), log(task=8, lines=[6, 9])])
    assert [pair.client for pair in pairs] == overlapping
    assert {pair.client.alike for pair in pairs} == {frozenset(OF_LOG) - {"task", "lines"}}


def test_at_the_end_a_request_without_counts_belongs_to_the_only_row_that_is_left():
    silent, row, refused = client(**NO_COUNTS), log(), log(refused=True)
    halves = WaitingHalves([silent], [row, refused], open=1)
    assert list(halves.last_pairs()) == [PairedHalves(silent, row)]
    assert (halves.clients, halves.logged, halves.open) == ([], [refused], 0)


@pytest.mark.parametrize("clients, rows", [
    ([client(**NO_COUNTS)], [log(), log()]), ([client(**NO_COUNTS), client(**NO_COUNTS)], [log()]),
    ([client(2, **NO_COUNTS)], [log()]), ([client(**NO_COUNTS, status=500)], [log()]),
    ([client(reused=6)], [log()]), ([client(**NO_COUNTS)], [log(refused=True)]),
])  # fmt: skip
def test_at_the_end_nothing_is_paired_that_is_not_certain(clients, rows):
    halves = WaitingHalves([*clients], [*rows])
    assert list(halves.last_pairs()) == [] and (halves.clients, halves.logged) == (clients, rows)


def test_at_the_end_ambiguous_rows_wait_no_longer():
    halves = WaitingHalves([client(sent=1, ended=3), client(sent=2, ended=4)], [log()], open=1)
    assert len(list(halves.last_pairs())) == 1 and len(halves.clients) == 1


def test_a_joined_row_has_the_counts_of_the_reply_and_the_causes_of_the_log():
    row = joined(PairedHalves(client(generated=None, reused=6), log(causes=["x"])))
    assert {name: row[name] for name in ("prompt", "reused", "evaluated", "generated", "slot", "task", "causes")} == {
        "prompt": 12, "reused": 6, "evaluated": 5, "generated": 2, "slot": 3, "task": 7, "causes": ["x"]}  # fmt: skip
    assert (row["source"], row["note"], row["end"]) == ("both", "", WHOLE)


def test_a_reply_that_states_0_counts():
    assert joined(PairedHalves(client(reused=0), log(reused=[0, 7])))["reused"] == 0


def test_the_slot_of_the_reply_counts_and_not_that_of_its_row():
    half = client(slot=1)
    half.row["slot"] = 5
    assert joined(PairedHalves(half, log()))["slot"] == 1
    half.slot = None
    assert joined(PairedHalves(half, log()))["slot"] == 3


@pytest.mark.parametrize("ends, status, shown, end", [
    (SERVER_LEFT, None, WHOLE, WHOLE), (SERVER_LEFT, 200, WHOLE, SERVER_LEFT),
    (CLIENT_LEFT, None, WHOLE, CLIENT_LEFT), (WHOLE, None, CLIENT_LEFT, CLIENT_LEFT),
])  # fmt: skip
def test_the_log_says_how_a_request_without_status_ended_unless_its_client_left(ends, status, shown, end):
    assert joined(PairedHalves(client(end=ends, status=status), log(end=shown)))["end"] == end


def test_an_ambiguous_row_states_only_what_is_certain():
    row = joined(PairedHalves(client(alike=frozenset({"run", "change"}), generated=None), log(causes=["x"])))
    assert {name: row[name] for name in OF_LOG} == {
        "run": 0, "slot": None, "task": None, "lines": [], "again": None, "change": "extends", "causes": [],
        "flags": [], "refused": None}  # fmt: skip
    assert (row["generated"], row["note"]) == (None, NOT_APART)
    assert joined(PairedHalves(client(alike=frozenset(), note="cut"), log()))["note"] == "cut"
