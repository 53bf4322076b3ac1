"""A request has one row: what its client sent, what the server answered, and what the log says about it."""

from __future__ import annotations

import json
from collections import Counter
from random import Random
from string import ascii_letters
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput, OverLimit
from cachesim.tools.watch import joined_rows
from cachesim.tools.watch.joined_rows import (
    APART,
    LOOKS,
    NO_REPLY,
    TOO_MANY,
    UNUSABLE,
    JoinedRows,
    _events,
    _is_count,
    reply_numbers,
    row_causes,
)
from cachesim.tools.watch.paired_halves import COUNTS, NOT_APART, PATIENCE, ClientHalf, LogHalf
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.server_losses import UNKNOWN, UNREACHABLE, BodyLink, ServedRequest
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, INCOMPLETE, NOT_COPIED, WHOLE, WatchedExchange


def exchange(reply=b"", body=None, **fields):
    body = json.dumps(body or {"prompt": "a question"}).encode()
    made = WatchedExchange("POST", "/completion?x", is_sent=True, status=200, end=WHOLE)
    made.take_request(body)
    made.take_reply(reply)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def timed(evaluated, reused, generated=2):
    timings = {"prompt_n": evaluated, "cache_n": reused, "predicted_n": generated, "prompt_ms": 1.5}
    return b'data: {"content":"a"}\n\ndata: ' + json.dumps({"timings": timings}).encode() + b"\n\ndata: [DONE]\n\n"


def logged(evaluated, reused, generated=2, **more):
    return {"source": "log", "run": 0, "slot": 3, "task": 7, "lines": [1, 9], "prompt": evaluated + reused,
            "evaluated": evaluated, "reused": reused, "generated": generated, "again": 4, "change": "extends",
            "causes": [{"cause": "no-checkpoint", "says": "no checkpoint"}], "flags": ["-cms"], "refused": False,
            "end": WHOLE, **more}  # fmt: skip


def watched(joined, *exchanges):
    for one in exchanges:
        joined.sent(one)
    return [row for one in exchanges for row in joined.ended(one)]


@pytest.mark.parametrize("reply, numbers", [
    (timed(5, 7), (12, 7, 5, 2)),
    (b'{"content":"a","timings":{"prompt_n":5,"cache_n":0,"predicted_n":2}}', (5, 0, 5, 2)),
    (b'data: {"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":2,"prompt_tokens_details":'
     b'{"cached_tokens":7}}}\n', (12, 7, 5, 2)),
    (b'event: message_start\ndata: {"message":{"usage":{"input_tokens":12,"cache_read_input_tokens":7}}}\n\n'
     b'event: message_delta\ndata: {"usage":{"output_tokens":2}}\n', (12, 7, 5, 2)),
    (b'{"usage":{"prompt_tokens":true,"completion_tokens":-1}}', (None,) * 4),
    (b'{"timings": [1], "usage": "x"', (None,) * 4), (b"", (None,) * 4), (b"data: \xff\ndata: [1]\n", (None,) * 4),
])  # fmt: skip
def test_the_numbers_of_a_reply(reply, numbers):
    found = reply_numbers(exchange(reply))
    assert tuple(found[name] for name in ("prompt", "reused", "evaluated", "generated")) == numbers


def test_a_compressed_reply_states_nothing():
    assert set(reply_numbers(exchange(timed(5, 7), coding="gzip")).values()) == {None}


def test_the_numbers_at_the_end_of_a_long_reply():
    found = reply_numbers(exchange(b'data: {"content":"a"}\n\n' * 200_000 + timed(5, 7)))
    assert (found["prompt"], found["evaluated"]) == (12, 5)


@pytest.mark.parametrize("is_log_first", [False, True])
def test_reply_and_log_are_joined_in_either_order(is_log_first):
    joined, one = JoinedRows(RecentBodies(), True), exchange(timed(5, 7))
    joined.sent(one)
    parts = [lambda: joined.ended(one), lambda: joined.logged(logged(5, 7))]
    first, second = parts[::-1] if is_log_first else parts
    assert list(first()) == []
    [row] = second()
    assert (row["source"], row["slot"], row["cause"], row["again"]) == ("both", 3, "new", 4)
    assert list(joined.rest()) == [] and joined.totals["requests"] == 1
    assert joined.causes == Counter({"no-checkpoint": 1})


def test_a_log_that_states_fewer_counts_is_joined_by_those():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(5, 7)), exchange(timed(6, 7))) == []
    [row] = joined.logged({**logged(6, 7), "reused": None, "generated": None})
    assert (row["source"], row["evaluated"], row["reused"]) == ("both", 6, 7)
    assert list(joined.logged({**logged(5, 7), **dict.fromkeys(COUNTS)})) == []
    assert [one["source"] for one in joined.rest()] == ["client", "log"]


def test_halves_without_a_partner_are_printed_alone_after_a_while():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(1, 1))) == []
    assert list(joined.read_to_end()) == []
    rows = [row for number in range(APART) for row in joined.logged(logged(100 + number, 0))]
    assert [row["source"] for row in rows] == ["client"] and len(list(joined.rest())) == APART


def test_replies_wait_for_a_log_that_is_read_later():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, *(exchange(timed(number, 1)) for number in range(100))) == []
    rows = [row for number in range(100) for row in joined.logged(logged(number, 1))]
    assert [row["source"] for row in rows] == ["both"] * 100 and list(joined.rest()) == []


def test_without_a_log_a_row_does_not_wait():
    assert len(watched(JoinedRows(RecentBodies(), False), exchange(timed(1, 1)))) == 1


def test_a_refused_request_waits_for_its_line_in_the_log_but_not_for_ever():
    """No line is about a body that the server cannot read."""
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(b"{}", status=500)) == []
    assert [row for _ in range(LOOKS - 1) for row in joined.read_to_end()] == []
    rows = [*joined.read_to_end()]
    assert [(row["status"], row["prompt"], row["cause"]) for row in rows] == [(500, None, "new")]
    body = b'{"error": {"code": 400, "n_prompt_tokens": 9000}}'
    assert watched(joined, exchange(body, status=400)) == []
    shown = {"evaluated": None, "reused": None, "generated": None, "refused": True, "again": None}
    [row] = joined.logged({**logged(9_000, 0), **shown})
    assert (row["source"], row["slot"], row["prompt"], row["refused"]) == ("both", 3, 9_000, True)
    assert joined.totals["requests"] == 2


def test_a_row_of_another_client_of_the_server_does_not_wait_for_ever():
    joined = JoinedRows(RecentBodies(), True)
    assert list(joined.logged(logged(5, 7))) == []
    assert [row for _ in range(LOOKS) for row in joined.read_to_end(is_quiet=False)] == []
    assert [row for _ in range(LOOKS - 1) for row in joined.read_to_end()] == []
    assert [row["source"] for row in joined.read_to_end()] == ["log"]


def test_a_reply_that_is_still_open_may_be_that_of_a_log_row():
    joined, first, second = JoinedRows(RecentBodies(), True), exchange(timed(5, 7)), exchange(timed(5, 7))
    assert watched(joined, first) == [] and joined.sent(second)
    assert list(joined.logged(logged(5, 7))) == list(joined.read_to_end()) == []
    [row] = joined.read_to_end()
    assert row["source"] == "both"


def left(body, **fields):
    """An exchange whose client hung up."""
    return exchange(b'data: {"content": "a", "tokens_evaluated": 12}\n\n', body, end=CLIENT_LEFT, has_client_left=True,
                    **fields)  # fmt: skip


def test_a_request_whose_client_hung_up_has_one_row():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, left({"prompt": "a question"})) == []
    [row] = joined.logged({**logged(5, 7), "generated": 3, "end": CLIENT_LEFT})
    assert (row["source"], row["end"], row["prompt"], row["generated"]) == ("both", CLIENT_LEFT, 12, 3)
    assert list(joined.rest()) == [] and joined.totals["prompt"] == 12


def test_a_request_without_any_statement_fits_only_a_row_whose_client_hung_up():
    joined = JoinedRows(RecentBodies(), True)
    silent = exchange(b"", {"prompt": "a question"}, status=0, end=CLIENT_LEFT, has_client_left=True)
    assert watched(joined, silent) == [] and list(joined.logged(logged(5, 7))) == []
    [row] = joined.logged({**logged(6, 7), "end": CLIENT_LEFT})
    assert (row["source"], row["evaluated"], row["end"]) == ("both", 6, CLIENT_LEFT)
    assert [row["source"] for row in joined.rest()] == ["log"]


def test_a_whole_reply_is_not_that_of_a_request_whose_client_hung_up():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(5, 7))) == list(joined.logged({**logged(5, 7), "end": CLIENT_LEFT})) == []
    [row] = joined.logged({**logged(5, 7), "task": 8})
    assert (row["source"], row["task"], row["end"]) == ("both", 8, WHOLE)


def test_at_the_end_the_only_reply_and_the_only_row_that_are_left_belong_together():
    joined = JoinedRows(RecentBodies(), True)
    silent = exchange(b"", {"prompt": "a question"}, status=0, end=CLIENT_LEFT, has_client_left=True)
    assert watched(joined, silent) == [] and list(joined.logged(logged(5, 7))) == []
    assert [row["source"] for row in joined.rest()] == ["both"]


PROMPTS = tuple("".join(Random(number).choices(ascii_letters, k=400)) for number in range(3))


def at_once(*replies):
    """Send requests before the first of them ends; return the joined rows."""
    joined = JoinedRows(RecentBodies(), True)
    made = [exchange(reply, {"prompt": prompt}) for reply, prompt in zip(replies, PROMPTS, strict=False)]
    for one in made:
        joined.sent(one)
    assert [row for one in made for row in joined.ended(one)] == []
    return joined


def test_requests_at_once_are_paired_by_the_slot_that_the_reply_states():
    states = b'{"id_slot": %d, "timings": {"prompt_n": 5, "cache_n": 7, "predicted_n": 2}}'
    joined = at_once(states % 3, states % 1)
    rows = [row for slot in (1, 3) for row in joined.logged({**logged(5, 7), "slot": slot, "task": slot})]
    rows += joined.rest()
    assert [(row["slot"], row["task"], row["conversation"]) for row in rows] == [(1, 1, 2), (3, 3, 1)]
    assert [row["note"] for row in rows] == ["", ""]


def test_requests_at_once_with_equal_counts_cannot_be_told_apart_and_say_so():
    joined = at_once(timed(5, 7), timed(5, 7))
    assert list(joined.logged({**logged(5, 7), "slot": 1, "causes": []})) == []
    rows = list(joined.logged(logged(5, 7)))
    assert [(row["source"], row["slot"], row["task"], row["causes"]) for row in rows] == [("both", None, 7, [])] * 2
    assert [row["note"] for row in rows] == [NOT_APART] * 2 and [row["again"] for row in rows] == [4, 4]
    assert joined.totals["requests"] == 2 and joined.totals["again"] == 8 and list(joined.rest()) == []


def test_a_row_that_may_be_of_two_requests_waits_for_the_second_row_only_for_a_while():
    joined = at_once(timed(5, 7), timed(5, 7))
    assert list(joined.logged(logged(5, 7))) == []
    rows = [row for _ in range(PATIENCE + 1) for row in joined.read_to_end()]
    rows += joined.logged(logged(5, 7))
    assert [(row["source"], row["slot"], row["prompt"], row["note"]) for row in rows] == [
        ("both", None, 12, NOT_APART)] * 2  # fmt: skip


def test_requests_one_after_the_other_with_equal_counts_have_the_order_of_their_rows():
    joined = JoinedRows(RecentBodies(), True)
    for prompt in PROMPTS:
        assert watched(joined, exchange(timed(5, 7), {"prompt": prompt})) == []
    rows = [row for task in range(3) for row in joined.logged({**logged(5, 7), "task": task, "lines": [task, task]})]
    assert [(row["task"], row["conversation"], row["note"]) for row in rows] == [(0, 1, ""), (1, 2, ""), (2, 3, "")]


def test_bodies_that_cannot_be_compared_have_a_row_with_the_reason():
    joined = JoinedRows(RecentBodies(), False)
    unfinished = exchange(timed(5, 7), is_sent=False, end=CLIENT_LEFT)
    rows = watched(joined, exchange(timed(5, 7), left_out=NOT_COPIED), unfinished, exchange(timed(5, 7), body="text"),
                   exchange(timed(5, 7), body={"prompt": ""}))  # fmt: skip
    notes = [row["note"] for row in rows]
    assert [note.partition(":")[0] for note in notes] == ["not compared"] * 3 and "empty prompt" in notes[2]
    assert joined.left_out == {NOT_COPIED: 1, INCOMPLETE: 1, UNUSABLE: 1, NO_REPLY: 0}
    assert joined.totals["other"] == 1                   # a JSON text does not ask for a completion


def test_other_requests_are_counted_only():
    joined, one = JoinedRows(RecentBodies(), False), WatchedExchange("GET", "/health", status=200, end=WHOLE)
    assert watched(joined, one) == [] and joined.totals == Counter({"other": 1})


@pytest.mark.parametrize("end", [joined_rows.HALVES, joined_rows.HALVES + 1])
def test_replies_beyond_a_bound_wait_no_longer(monkeypatch, end):
    monkeypatch.setattr(joined_rows, "APART", 1 << 30)
    joined = JoinedRows(RecentBodies(), True)
    joined._halves.clients = [ClientHalf({"source": "client", "prompt": at}) for at in range(end)]
    assert [row["prompt"] for row in joined.read_to_end()] == [0] * (end - joined_rows.HALVES)
    assert joined.is_behind


@pytest.mark.parametrize("end", [joined_rows.ROWS, joined_rows.ROWS + 2])
def test_rows_of_the_log_beyond_a_bound_wait_no_longer(monkeypatch, end):
    joined = JoinedRows(RecentBodies(), True)
    joined._halves.logged = [LogHalf(logged(5, 7, task=at, lines=[at])) for at in range(end)]
    assert [row["task"] for row in joined.read_to_end(is_quiet=False)] == [*range(end - joined_rows.ROWS)]


@pytest.mark.parametrize("half, is_behind", [(joined_rows.HALVES // 2, True), (joined_rows.HALVES // 2 - 1, False)])
def test_the_log_is_read_first_if_half_of_the_replies_that_may_wait_do(half, is_behind):
    joined = JoinedRows(RecentBodies(), True)
    joined._halves.clients = [ClientHalf({})] * half
    assert joined.is_behind is is_behind


def other(method, target, reply, status=200):
    one = WatchedExchange(method, target, is_sent=True, status=status, end=WHOLE)
    one.take_reply(reply)
    return one


@pytest.mark.parametrize("method, reply, status, slots", [
    ("GET", b'{"total_slots": 3}', 200, 3), ("POST", b'{"total_slots": 3}', 200, 0), ("GET", b"{}", 200, 0),
    ("GET", b'{"total_slots": 3}', 500, 0),
])  # fmt: skip
def test_the_server_states_the_number_of_its_slots(method, reply, status, slots):
    joined = JoinedRows(RecentBodies(), False)
    assert watched(joined, other(method, "/props", reply, status)) == [] and joined.losses.slots == slots


@pytest.mark.parametrize("method, target, reply, status, events", [
    ("POST", "/slots/3?action=erase", b'{"id_slot": 3, "n_erased": 9}', 200, [(1, "erase", 3)]),
    ("POST", "/slots/3?action=restore", b'{"id_slot": 3}', 200, [(1, "restore", 3)]),
    ("POST", "/slots/3?action=erase", b'{"id_slot": 2}', 200, []), ("POST", "/slots/3?action=erase", b"{}", 200, []),
    ("GET", "/slots/3?action=erase", b'{"id_slot": 3}', 200, []),
    ("POST", "/slots/3?action=erase", b'{"id_slot": 3}', 501, []), ("POST", "/slots/3", b'{"id_slot": 3}', 200, []),
])  # fmt: skip
def test_an_action_counts_if_the_server_confirms_it_for_the_slot(method, target, reply, status, events):
    joined = JoinedRows(RecentBodies(), False)
    watched(joined, other(method, target, reply, status))
    assert [tuple(one) for one in joined.losses._events] == events


def test_a_refused_connection_is_an_event_between_requests():
    joined = JoinedRows(RecentBodies(), False)
    joined.unreachable()
    joined.unreachable()
    assert [tuple(one) for one in joined.losses._events] == [(1, UNREACHABLE, None), (2, UNREACHABLE, None)]


def test_causes_are_counted_if_they_cost_tokens():
    assert row_causes({"cause": "date", "harmless": False, "causes": []}) == ["date"]
    assert row_causes({"cause": "extends", "harmless": True}) == []
    assert row_causes({"change": "history", "causes": [{"cause": "no-checkpoint"}]}) == ["history", "no-checkpoint"]
    assert [row_causes({"change": change}) for change in ("", "new", "extends", "same")] == [[], [], [], ["same"]]
    assert row_causes({}) == [] and row_causes({"cause": "", "change": "new"}) == [""]


@pytest.mark.parametrize(("data", "events"), [
    (b'{"a": 1}', [{"a": 1}]), (b'data:{"a": 1}', [{"a": 1}]), (b"no json", []), (b"[1]", []),
    (b'data: {"a": 1}\n\ndata: x\n\ndata: {"a": 2}\n\ndata: [DONE]\n', [{"a": 1}, {"a": 2}]),
    (b"".join(b'data: {"a": %d}\n' % number for number in range(6)), [{"a": number} for number in (2, 3, 4, 5)]),
])  # fmt: skip
def test_the_last_objects_of_a_reply_are_read(data, events):
    assert [*_events(data)] == events


@pytest.mark.parametrize(("fields", "number", "served"), [
    ({}, 4, {"prompt": 12, "reused": 7}), ({"end": CLIENT_LEFT}, 4, {"prompt": 12, "reused": 7}),
    ({"end": CLIENT_LEFT, "prompt": 20}, 4, {"prompt": 12, "reused": 7}),
    ({"end": CLIENT_LEFT, "prompt": 9}, 4, {"prompt": 9, "reused": 7}),
    ({"end": CLIENT_LEFT, "prompt": 0, "reused": 0}, 4, {"prompt": 0, "reused": 0}),
    ({"end": CLIENT_LEFT, "prompt": 9, "reused": 0, "evaluated": 0}, 4, {"prompt": 0, "reused": 0}),
    ({"end": CLIENT_LEFT, "evaluated": None}, 4, {"prompt": None, "reused": 7}),
    ({"prompt": 20}, 4, {"prompt": 20, "reused": 7}), ({"reused": [1, 2]}, 4, {"prompt": 12, "reused": None}),
    ({}, 0, None), ({"status": 400}, 4, None),
])  # fmt: skip
def test_the_losses_learn_what_the_server_did_for_a_request(fields, number, served):
    joined, noted = JoinedRows(RecentBodies(), True), []
    joined.losses = SimpleNamespace(add=lambda *given: noted.append(given))
    place = {"slot": 3, "run": 0, "task": 9, "cause": "date", "end": WHOLE}
    row = {"prompt": 12, "reused": 7, "evaluated": 5, **place, **fields}
    link = BodyLink(number, 2)
    joined._serve(ClientHalf(row, link, ended=8), row)
    wanted = None if served is None else ServedRequest(link, 8, 3, 0, 9, **served)
    assert noted == ([] if wanted is None else [(wanted, "date")])


@pytest.mark.parametrize(("after", "stated"), [
    (100, {("timings", "prompt_n"): 5}), ((1 << 16) - 100, {("timings", "prompt_n"): 5}), ((1 << 16) + 1, {})])
def test_counts_are_read_at_the_end_of_a_reply(after, stated):
    """The last 65536 bytes, and what follows them; a reply in another coding is not read."""
    event = b'data: {"timings": {"prompt_n": 5}}\n\n'
    made = SimpleNamespace(coding="", reply=bytearray(event + b":" * after), rest=b"\n\n")
    assert joined_rows._stated(made) == stated
    assert joined_rows._stated(SimpleNamespace(coding="gzip", reply=bytearray(event), rest=b"")) == {}


@pytest.mark.parametrize(("error", "why"), [(OverLimit("9 values"), TOO_MANY), (BadInput("no JSON"), UNUSABLE)])
def test_a_body_that_cannot_be_compared_is_left_out_with_its_reason(error, why):
    def refuse(*_):
        raise error

    joined = JoinedRows(SimpleNamespace(add=refuse, row=None), False)
    [row] = watched(joined, exchange(timed(5, 7)))
    assert row["note"] == f"not compared: {error}" and joined.left_out[why] == 1
    assert joined.ranked_reasons() == [{"why": why, "requests": 1}]


@pytest.mark.parametrize("value, is_one", [
    (0, True), (1, True), ((1 << 31) - 1, True), (1 << 31, False), (-1, False), (True, False), (1.0, False),
    ("1", False),
    (None, False),
])  # fmt: skip
def test_a_plausible_count(value, is_one):
    assert _is_count(value) is is_one


@pytest.mark.parametrize(("event", "stated"), [
    ({"usage": {"a": 1, "b": {"c": 2, "d": "x"}, "e": [3]}}, {("usage", "a"): 1, ("usage", "c"): 2}),
    ({"message": {"usage": {"a": 1}}, "response": {"timings": {"b": 2}}, "error": {"n": 3}},
     {("error", "n"): 3, ("usage", "a"): 1, ("timings", "b"): 2}),
    ({"message": "x", "response": [1], "usage": 5}, {}),
    ({"id_slot": 1, "tokens_evaluated": 2, "total_slots": 3, "n_restored": 4, "n_erased": 5, "other": 6},
     {("event", name): number for number, name in enumerate(joined_rows.OF_EVENT, 1)}),
    ({"id_slot": -1}, {}), ({"usage": {"a": True}}, {}),
])  # fmt: skip
def test_the_counts_of_an_event(event, stated):
    found = {}
    joined_rows._take(event, found)
    assert found == stated


def totals_of(*rows):
    joined = JoinedRows(RecentBodies(), False)
    numbered = [joined._counted(row) for row in rows]
    return joined, numbered


def test_the_totals_are_least_numbers():
    known = {"prompt": 12, "reused": 7, "evaluated": 5, "generated": 2, "again": 0, "cause": "new"}
    joined, numbered = totals_of(known, {**known, "prompt": [3, 9], "reused": [None, 4], "again": None})
    assert [row["number"] for row in numbered] == [1, 2]
    assert joined.totals == {"requests": 2, "prompt": 15, "reused": 7, "evaluated": 10, "generated": 4, "again": 0}
    assert joined.open_columns == {"prompt", "reused", "again"} and joined.causes == {}


@pytest.mark.parametrize(("loss", "causes", "shown"), [
    (None, [], None), ({"cause": UNKNOWN}, [], {"cause": UNKNOWN}), ({"cause": UNKNOWN}, [{"cause": "a"}],
                                                                     {"cause": UNKNOWN}),
    ({"cause": UNKNOWN}, [{"cause": "a"}, {"cause": "b", "lost": 5}], None),
    ({"cause": "erase"}, [{"cause": "b", "lost": 5}], {"cause": "erase"}),
])  # fmt: skip
def test_a_loss_is_shown_unless_the_log_explains_it(loss, causes, shown):
    joined = JoinedRows(RecentBodies(), False)
    joined.losses = SimpleNamespace(loss=lambda number, cause: loss if (number, cause) == (4, "same") else 1 / 0)
    row = joined._counted({"cause": "same", "harmless": True, "causes": causes}, ClientHalf({}, BodyLink(4, 2)))
    assert (row.get("loss"), row["harmless"]) == (shown, loss is None)
    names = [*([shown["cause"]] if shown else []), *(one["cause"] for one in causes)]
    assert joined.ranked_causes() == [{"cause": name, "requests": 1} for name in names]


def test_a_refused_request_has_no_loss():
    joined = JoinedRows(RecentBodies(), False)
    joined.losses = SimpleNamespace(loss=lambda number, cause: {"cause": UNKNOWN})
    assert "loss" not in joined._counted({"cause": "same"}, ClientHalf({"status": 400}, BodyLink(4, 2)))


def test_several_prompts_of_a_body_have_rows_without_the_counts_of_the_reply():
    joined = JoinedRows(RecentBodies(), False)
    rows = watched(joined, exchange(timed(5, 7), {"prompt": PROMPTS[:2]}))
    assert [(row["prompt"], row["generated"], row["conversation"], row["status"]) for row in rows] == [
        (None, None, 1, 200), (None, None, 2, 200)]  # fmt: skip


@pytest.mark.parametrize(("method", "body", "is_one"), [
    ("POST", b"x", True), ("GET", b"x", False), ("POST", b"", False)])
def test_only_posted_bodies_are_compared(method, body, is_one):
    joined, one = JoinedRows(RecentBodies(), False), WatchedExchange(method, "/x", is_sent=True)
    one.take_request(body)
    assert joined.sent(one) == []
    assert joined.left_out.total() == is_one


def test_the_bytes_of_a_body_are_released_as_soon_as_it_was_compared():
    joined, one = JoinedRows(RecentBodies(), False), exchange(timed(5, 7))
    assert bytes(one.body) and len(joined.sent(one)) == 1
    assert bytes(one.body) == b"" and one.size > 0


def test_a_request_after_the_deadline_is_not_compared():
    joined, one = JoinedRows(RecentBodies(), False, lambda: True), exchange(timed(5, 7))
    assert joined.sent(one) == [] and joined.left_out == {joined_rows.TOO_LATE: 1}
    [row] = joined.ended(one)
    assert (row["note"], row["prompt"]) == (f"not compared: {joined_rows.TOO_LATE}", 12)


def chat(*messages):
    return {"messages": [{"role": "user" if at % 2 == 0 else "assistant", "content": text}
                         for at, text in enumerate(messages)]}  # fmt: skip


ANSWERED = (b'data: {"choices":[{"delta":{"reasoning_content":"Hm, let me see."}}]}\n'
            b'data: {"choices":[{"delta":{"content":"Yes."}}]}\n')  # fmt: skip


@pytest.mark.parametrize(("fields", "cause"), [
    ({}, "answer reasoning"), ({"end": CLIENT_LEFT}, "extends"), ({"reply_size": len(ANSWERED) + 1}, "extends")])
def test_the_answer_of_a_whole_reply_is_compared_with_the_next_request(fields, cause):
    joined = JoinedRows(RecentBodies(), False)
    first = exchange(ANSWERED, chat("a question"), **fields)
    [row] = watched(joined, first)
    [found] = joined.sent(exchange(b"", chat("a question", "Yes.", "another question")))
    assert (row["cause"], found["cause"]) == ("new", cause)


def test_rows_of_a_body_that_the_server_answers_have_their_links():
    joined = JoinedRows(RecentBodies(), True)
    for body in (chat("a question"), chat("a question", "Yes.", "more")):
        assert watched(joined, exchange(timed(5, 7), body)) == []
    links = [one.link for one in joined._halves.clients]
    assert [(one.number, one.before, one.conversation) for one in links] == [(1, 0, 1), (2, 1, 1)]
    assert watched(joined, exchange(timed(5, 7), {"prompt": ""})) == []
    assert joined._halves.clients[-1].link == BodyLink()


def test_a_log_row_waits_for_so_many_replies():
    joined = JoinedRows(RecentBodies(), True)
    assert list(joined.logged(logged(500, 7))) == []
    replies = [exchange(timed(number, 1), {"prompt": f"{number} {PROMPTS[0]}"}) for number in range(APART)]
    assert watched(joined, *replies[:-1]) == []
    assert [(row["source"], row["evaluated"]) for row in watched(joined, replies[-1])] == [("log", 500)]


def test_the_halves_that_are_left_are_shown_once():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(5, 7))) == [] and list(joined.logged(logged(6, 7))) == []
    assert [row["source"] for row in joined.rest()] == ["client", "log"]
    assert list(joined.rest()) == [] and joined.totals["requests"] == 2


def test_a_reply_that_reused_nothing_of_the_previous_prompt_shows_a_loss_without_a_log():
    joined = JoinedRows(RecentBodies(), False)
    [first] = watched(joined, exchange(timed(500, 0), chat("a question")))
    [second] = watched(joined, exchange(timed(520, 0), chat("a question", "Yes.", "more")))
    assert "loss" not in first and (second["loss"]["cause"], second["loss"]["tokens"]) == (UNKNOWN, 500)


@pytest.mark.parametrize(("reply", "end"), [
    (b'{"usage": {"completion_tokens": 2}}', WHOLE), (b'{"timings": {"prompt_n": 5}}', WHOLE), (timed(5, 7), WHOLE),
    (b'{"usage": {"prompt_tokens": 12}}', CLIENT_LEFT), (b"", CLIENT_LEFT),
])  # fmt: skip
def test_a_client_has_not_left_a_reply_that_states_the_counts_of_its_end(reply, end):
    joined = JoinedRows(RecentBodies(), False)
    [row] = watched(joined, exchange(reply, has_client_left=True))
    assert row["end"] == end


def test_a_loss_is_found_with_the_counts_that_only_the_log_states():
    joined, counts = JoinedRows(RecentBodies(), True), b'{"usage": {"completion_tokens": 2}}'
    found = []
    for evaluated, messages in ((500, ["a question"]), (520, ["a question", "Yes.", "more"])):
        assert watched(joined, exchange(counts, chat(*messages))) == []
        found += joined.logged({**logged(evaluated, 0), "lines": [evaluated, evaluated]})
    assert [row.get("loss", {}).get("tokens") for row in found] == [None, 500]
