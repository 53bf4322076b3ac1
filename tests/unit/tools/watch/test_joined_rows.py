"""A request has one row: what its client sent, what the server answered, and what the log says about it."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from random import Random
from string import ascii_letters

import pytest

from cachesim.base.limits import WATCHED_VALUES
from cachesim.tools.watch import joined_rows
from cachesim.tools.watch.joined_rows import (
    APART,
    COMPRESSED,
    LOOKS,
    NO_REPLY,
    TOO_MANY,
    UNUSABLE,
    JoinedRows,
    row_causes,
)
from cachesim.tools.watch.paired_halves import COUNTS, NOT_APART, PATIENCE
from cachesim.tools.watch.recent_bodies import RecentBodies
from cachesim.tools.watch.server_losses import UNKNOWN, UNREACHABLE
from cachesim.tools.watch.watched_exchange import CLIENT_LEFT, INCOMPLETE, NOT_COPIED, WHOLE, WatchedExchange


def exchange(reply=b"", body=None, coding="", **fields):
    body = json.dumps(body or {"prompt": "a question"}).encode()
    made = WatchedExchange("POST", "/completion?x", is_sent=True, status=200, end=WHOLE, coding=coding)
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
     b'event: message_delta\ndata: {"usage":{"output_tokens":2}}\n', (19, 7, 12, 2)),
    (b'data: {"response": {"usage": {"input_tokens": 12, "output_tokens": 2}}}', (12, None, None, 2)),
    (b'{"error": {"n_prompt_tokens": 9000}}', (9_000, None, None, None)),
    (timed(5, 7) + b"data: {}\n" * 2, (12, 7, 5, 2)), (timed(5, 7) + b"data: {}\n" * 3, (None,) * 4),
    (b'data: {"content":"a"}\n\n' * 200_000 + timed(5, 7), (12, 7, 5, 2)),
    (b'{"usage":{"prompt_tokens":2147483647,"completion_tokens":0}}', (2147483647, None, None, 0)),
    (b'{"usage":{"prompt_tokens":2147483648,"completion_tokens":1.0}}', (None,) * 4),
    (b'{"usage":{"prompt_tokens":true,"completion_tokens":-1}}', (None,) * 4),
    (b'{"timings": [1], "usage": "x"', (None,) * 4), (b"", (None,) * 4), (b"data: \xff\ndata: [1]\n", (None,) * 4),
])  # fmt: skip
def test_the_numbers_of_a_reply(reply, numbers):
    """They are in the last four events of a stream."""
    [row] = watched(JoinedRows(RecentBodies(), False), exchange(reply))
    assert tuple(row[name] for name in ("prompt", "reused", "evaluated", "generated")) == numbers


@pytest.mark.parametrize("coding, compress", [("gzip", gzip.compress), ("deflate", zlib.compress), ("Identity", bytes)])
def test_the_numbers_of_a_compressed_reply(coding, compress):
    [row] = watched(joined := JoinedRows(RecentBodies(), False), exchange(compress(timed(5, 7)), coding=coding))
    assert (row["prompt"], row["evaluated"], row["note"]) == (12, 5, "") and joined.ranked_reasons() == []


@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_a_reply_that_cannot_be_decoded_is_said_and_counted(coding):
    [row] = watched(joined := JoinedRows(RecentBodies(), False), exchange(timed(5, 7), coding=coding))
    assert row["prompt"] is row["evaluated"] is row["generated"] is None and row["note"] == COMPRESSED
    assert joined.ranked_reasons() == [{"why": COMPRESSED, "requests": 1}]


def test_a_reply_that_cannot_be_decoded_is_no_answer_that_the_client_changes():
    joined = JoinedRows(RecentBodies(), False)
    asked = [{"role": "user", "content": "What is it?"}]
    talk = [*asked, {"role": "assistant", "content": "A river."}, {"role": "user", "content": "Where?"}]
    rows = watched(joined, exchange(b"x", {"messages": asked}, coding="br"))
    rows += watched(joined, exchange(b"x", {"messages": talk}, coding="br"))
    assert [row["cause"] for row in rows] == ["new", "extends"]


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
    assert (joined.totals["requests"], joined.totals["prompt"], joined.open_columns) == (2, 0, set())


TOOLS = [{"type": "function", "function": {"name": name}} for name in ("open", "save")]
ASK = [{"role": "user", "content": "a question"}]


@pytest.mark.parametrize(("reused", "counted"), [(20, 0), (3, 1)])
def test_a_reordered_tool_list_counts_only_if_the_server_reused_less(reused, counted):
    """A template that renders no tools has an equal prompt."""
    joined = JoinedRows(RecentBodies(), False)
    first = exchange(timed(20, 0), {"messages": ASK, "tools": TOOLS})
    longer = [*ASK, {"role": "assistant", "content": "a"}, *ASK]
    second = exchange(timed(30 - reused, reused), {"messages": longer, "tools": TOOLS[::-1]})
    rows = watched(joined, first, second)
    assert rows[1]["harmless"] is not counted and len(joined.ranked_causes()) == counted


def test_a_new_conversation_that_lost_nothing_has_no_flags():
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(30, 0))) == []
    [row] = joined.logged({**logged(30, 0), "again": 0})
    assert (row["cause"], row["flags"]) == ("new", [])


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
    assert len(rows) == 3 and all(row["note"] for row in rows)
    assert joined.left_out == {NOT_COPIED: 1, INCOMPLETE: 1, UNUSABLE: 1, NO_REPLY: 0, COMPRESSED: 0}
    assert joined.totals["other"] == 1                   # a JSON text does not ask for a completion


def test_other_requests_are_counted_only():
    joined, one = JoinedRows(RecentBodies(), False), WatchedExchange("GET", "/health", status=200, end=WHOLE)
    assert watched(joined, one) == [] and joined.totals == Counter({"other": 1})


def test_replies_beyond_a_bound_wait_no_longer(monkeypatch):
    """The log is read first if half of the replies that may wait do."""
    monkeypatch.setattr(joined_rows, "HALVES", 6)
    joined, found = JoinedRows(RecentBodies(), True), []
    for number in range(8):
        rows = watched(joined, exchange(timed(number, 1)))
        found.append((joined.is_behind, [row["evaluated"] for row in rows]))
    assert found == [*[(False, [])] * 2, *[(True, [])] * 4, (True, [0]), (True, [1])]


def test_rows_of_the_log_beyond_a_bound_wait_no_longer(monkeypatch):
    monkeypatch.setattr(joined_rows, "ROWS", 3)
    joined = JoinedRows(RecentBodies(), True)
    found = [[row["task"] for row in joined.logged(logged(5, 7, task=task, lines=[task]))] for task in range(5)]
    assert found == [[], [], [], [0], [1]]


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


def loss_after(happens):
    """Return the cause of the loss of a request in slot 3 whose conversation the server has evaluated before."""
    joined, state = JoinedRows(RecentBodies(), False), b'{"id_slot": 3, "timings": {"prompt_n": 500, "cache_n": 0}}'
    [first] = watched(joined, exchange(state, chat("a question")))
    happens(joined)
    [second] = watched(joined, exchange(state, chat("a question", "a", "more")))
    assert "loss" not in first and second["loss"]["tokens"] in (499, 500)
    return second["loss"]["cause"]


@pytest.mark.parametrize("method, target, reply, status, cause", [
    ("POST", "/slots/3?action=erase", b'{"id_slot": 3, "n_erased": 9}', 200, "erased"),
    ("POST", "/slots/3?a=b&action=restore", b'{"id_slot": 3}', 200, "restored over"),
    ("POST", "/slots/3?action=erase", b'{"id_slot": 2}', 200, UNKNOWN),
    ("POST", "/slots/3?action=erase", b"{}", 200, UNKNOWN),
    ("GET", "/slots/3?action=erase", b'{"id_slot": 3}', 200, UNKNOWN),
    ("POST", "/slots/3?action=erase", b'{"id_slot": 3}', 501, UNKNOWN),
    ("POST", "/slots/3", b'{"id_slot": 3}', 200, UNKNOWN),
])  # fmt: skip
def test_an_action_counts_if_the_server_confirms_it_for_the_slot(method, target, reply, status, cause):
    assert loss_after(lambda joined: watched(joined, other(method, target, reply, status))) == cause


def test_a_refused_connection_between_requests_explains_a_loss():
    assert loss_after(JoinedRows.unreachable) == UNREACHABLE


def test_causes_are_counted_if_they_cost_tokens():
    assert row_causes({"cause": "date", "harmless": False, "causes": []}) == ["date"]
    assert row_causes({"cause": "extends", "harmless": True}) == []
    assert row_causes({"change": "history", "causes": [{"cause": "no-checkpoint"}]}) == ["history", "no-checkpoint"]
    assert [row_causes({"change": change}) for change in ("", "new", "extends", "same")] == [[], [], [], ["same"]]
    assert row_causes({}) == [] and row_causes({"cause": "", "change": "new"}) == [""]


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
    assert row["note"] and row["prompt"] == 12


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
    [second] = watched(joined, exchange(timed(520, 0), chat("a question", "a", "more")))
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


@pytest.mark.parametrize(("end", "status", "state", "tokens"), [
    (WHOLE, 200, b'{"usage": {"prompt_tokens": 900, "cached_tokens": 0}, "timings": {"prompt_n": 500}}', 900),
    (CLIENT_LEFT, 200, b'{"usage": {"prompt_tokens": 900, "cached_tokens": 0}, "timings": {"prompt_n": 500}}', 500),
    (CLIENT_LEFT, 200, b'{"usage": {"prompt_tokens": 400, "cached_tokens": 0}, "timings": {"prompt_n": 500}}', 400),
    (CLIENT_LEFT, 200, b'{"usage": {"prompt_tokens": 900}}', None), (WHOLE, 400, timed(900, 0), None),
])  # fmt: skip
def test_a_request_can_lose_what_the_server_evaluated_of_the_one_before(end, status, state, tokens):
    joined = JoinedRows(RecentBodies(), False)
    watched(joined, exchange(state, chat("a question"), end=end, status=status))
    [row] = watched(joined, exchange(timed(950, 0), chat("a question", "a", "more")))
    assert row.get("loss", {}).get("tokens") == tokens


@pytest.mark.parametrize(("causes", "is_shown"), [
    ([], True), ([{"cause": "a"}], True), ([{"cause": "a"}, {"cause": "b", "lost": 5}], False)])
def test_a_loss_without_a_known_cause_is_shown_unless_the_log_explains_it(causes, is_shown):
    joined = JoinedRows(RecentBodies(), True)
    assert watched(joined, exchange(timed(500, 0), chat("a question"))) == []
    assert len([*joined.logged(logged(500, 0, causes=[]))]) == 1
    assert watched(joined, exchange(timed(520, 0), chat("a question", "a", "more"))) == []
    [row] = joined.logged(logged(520, 0, causes=causes))
    assert ("loss" in row, row["harmless"]) == (is_shown, False)
    names = [*([UNKNOWN] if is_shown else []), *(one["cause"] for one in causes)]
    assert joined.ranked_causes() == [{"cause": name, "requests": 1} for name in names]


def test_the_totals_are_least_numbers():
    joined, known = JoinedRows(RecentBodies(), True), logged(5, 7, again=0, causes=[])
    ranges = {**known, "prompt": [3, 9], "reused": [None, 4], "again": None}
    rows = [*joined.logged(known, is_alone=True), *joined.logged(ranges, is_alone=True)]
    assert [row["number"] for row in rows] == [1, 2]
    assert joined.totals == {"requests": 2, "prompt": 15, "reused": 7, "evaluated": 10, "generated": 4, "again": 0}
    assert joined.open_columns == {"prompt", "reused", "again"} and joined.causes == {}


def test_a_body_with_too_many_values_is_left_out():
    joined = JoinedRows(RecentBodies(), False)
    [row] = watched(joined, exchange(timed(5, 7), {"prompt": "a", "tools": [0] * WATCHED_VALUES.value}))
    assert (row["prompt"], joined.ranked_reasons()) == (12, [{"why": TOO_MANY, "requests": 1}]) and row["note"]
