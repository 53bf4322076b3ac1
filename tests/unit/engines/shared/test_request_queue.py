"""Received requests: their rows in progress, refusals, rounds, and the end of the process."""


import pytest

from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import ExceededLimit
from cachesim.engines.shared.request_queue import (
    ReceivedRequest,
    Refusal,
    RequestQueue,
    UnfinishedRows,
    key_of,
    log_launch,
    record_answer,
    too_many,
)
from cachesim.events import Aborted, Launch, Log


class Row:
    """A row in progress."""

    busy = True


def test_ended_rows_leave_and_the_order_of_arrival_stays():
    rows, every = UnfinishedRows(), [Row() for _ in range(4)]
    for row in every:
        rows.add(row)
    assert list(rows) == every
    every[1].busy = every[3].busy = False
    assert list(rows) == [every[0], every[2]]


class Queued:
    """A row of ``Batching``."""

    def __init__(self, number, task, key):
        self.id, self.task, self.key, self.busy, self.tokens, self.child = number, task, key, True, [], False

    def finish(self):
        self.busy = False


class Batching(RequestQueue):
    """A queue for requests of up to nine tokens that completes one request in each step, and ends at token 66."""

    def start_memory(self):
        self.longest, self.inspection = 10, None

    def refusal(self, n, max_tokens):
        is_long = n + max_tokens >= self.longest
        return Refusal(f"{n} tokens", "prompt-too-long", {"prompt": n, "most": 10}) if is_long else None

    def new_row(self, task):
        return Queued(len(self.slots), task, key_of(task.request.kind) if task.request.seed else 0)

    def abort(self, row):
        record_answer(row.task.answer, "none", True, ())
        self.waiting.remove(row)
        row.finish()

    def work(self):
        if not self.waiting:
            self.stalled = True
            return
        row = self.waiting.pop(0)
        if 66 in row.task.request.prompt:
            raise ProcessAborted("out of memory", "memory", asked=7)
        record_answer(row.task.answer, "limit", False, row.task.request.prompt)
        row.finish()


@pytest.fixture
def server():
    return Batching(None, None, None, None, Log())


def test_a_request_waits_gets_a_row_and_is_answered_in_the_order_of_arrival(server):
    first, second = server.submit(Request((1, 2))), server.submit(Request((3,), seed=True))
    assert (server.tasks.queued, server.idle, server.slots, server.sizes.n_ctx_slot) == (2, False, [], 10)
    server.take_tasks()
    assert (server.tasks.queued, server.tasks.at_work(), server.idle) == (0, [0, 1], False)
    assert (first.id_slot, second.id_slot, first.keys) == (0, 1, ())
    assert second.keys == ((0, key_of("completion")),)
    server.update()
    assert (first.done, first.slot_tokens, second.done, server.tasks.at_work()) == (True, (1, 2), False, [1])
    server.update()
    assert second.done and server.idle and not server.stuck


@pytest.mark.parametrize(("request_", "text"), [
    (Request((1,), kind="embedding"), "only single completions"), (Request((1,), n_cmpl=2), "only single completions"),
    (Request(()), "an empty prompt"),
])  # fmt: skip
def test_a_request_that_is_not_modelled_is_refused(server, request_, text):
    with pytest.raises(BadInput, match=text):
        server.submit(request_)


def test_a_prompt_as_long_as_the_longest_request_gets_an_error_and_no_row(server):
    answer = server.submit(Request(tuple(range(10))))
    assert (answer.status, answer.error, answer.error_kind) == (400, "10 tokens", "prompt-too-long")
    assert (answer.error_numbers, answer.done, server.tasks.queued) == ({"prompt": 10, "most": 10}, True, 0)
    answer = server.submit(Request(tuple(range(9))))
    assert (answer.status, answer.done, server.tasks.queued) == (200, False, 1)


def test_max_tokens_count_for_a_refusal_and_end_a_longer_answer(server):
    assert server.submit(Request((1, 2), n_predict=20, extra={"max_tokens": 8})).status == 400
    server.submit(Request((1, 2), n_predict=20, extra={"max_tokens": 7}))
    assert server.queue[0].request.n_predict == 7


def test_the_end_of_the_process_ends_all_requests_and_later_ones_stay_open(server):
    ended, waiting = server.submit(Request((66,))), server.submit(Request((2,)))
    server.take_tasks()
    queued = server.submit(Request((3,)))
    server.update()
    assert server.dead and server.idle
    assert [answer.died for answer in (ended, waiting, queued)] == [True, True, True]
    assert (queued.error, queued.error_kind, queued.error_numbers) == ("out of memory", "memory", {"asked": 7})
    assert server.log.events == [Aborted("out of memory")]
    late = server.submit(Request((4,)))
    assert server.tasks.queued == 0 and not late.done and not late.died


def test_a_server_is_stuck_if_a_round_changes_nothing_and_no_request_arrives(server):
    server.update()
    assert server.stuck
    server.submit(Request((1,)))
    assert not server.stuck


@pytest.mark.parametrize(("cancel_at", "n", "is_ended"), [(5, 4, False), (5, 5, True), (5, 6, True), (None, 6, False)])
def test_a_request_ends_when_so_many_tokens_were_evaluated_that_its_client_left(server, cancel_at, n, is_ended):
    answer = server.submit(Request((1, 2), cancel_at=cancel_at))
    server.take_tasks()
    row = server.slots[0]
    server.abort_cancelled(row, n)
    assert (answer.cancelled, answer.done, row.busy) == (is_ended, is_ended, not is_ended)
    if is_ended:
        server.abort_cancelled(row, n)                   # has ended: nothing happens


def test_tokens_that_differ_in_a_name_have_different_keys():
    assert key_of() == key_of("", "") == 0
    assert len({key_of("a"), key_of("b"), key_of("a", ""), key_of("", "a"), key_of("ab"), key_of("a", "b")}) == 6
    assert key_of("a") == key_of("a") > 0
    assert key_of("aevs9az") == 1, "the checksum of this name is 0"


def test_a_launch_records_what_is_reused_and_what_is_left_to_evaluate():
    log, answer = Log(), Answer(3)
    log_launch(log, ReceivedRequest(3, Request(tuple(range(9))), answer), 2, {"block": 4, "slot": 0})
    assert (answer.reused, answer.prompt_n, log.events) == ({"block": 4}, 5, [Launch(2, 3, 0)])


def test_an_answer_is_recorded_with_the_tokens_that_were_evaluated():
    answer = Answer(0)
    record_answer(answer, "eos", True, [1, 2, 3])
    assert (answer.stop_type, answer.tokens_cached, answer.cancelled) == ("eos", 3, True)
    assert (answer.slot_tokens, answer.done) == ((1, 2, 3), True)


def test_more_requests_at_work_than_allowed_exceed_the_limit():
    assert too_many(2, 2) == []
    assert too_many(3, 2) == [ExceededLimit("requests at work", 3, 2)]


def test_the_end_of_the_process_ends_rows_without_a_task_too(server):
    """A row whose request has ended has none."""
    server.submit(Request((1,)))
    server.take_tasks()
    row = server.slots[0]
    answer, row.task = row.task.answer, None
    server.record_death(ProcessAborted("out of memory", "memory"))
    assert (server.dead, row.busy, answer.died) == (True, True, False)
