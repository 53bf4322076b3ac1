"""The rows in progress are found without the rows that have ended."""

from types import SimpleNamespace

from cachesim.engines.base import BEFORE_A_SLOT
from cachesim.engines.shared.request_queue import RequestQueue, UnfinishedRows


class Row:
    """A row that counts how often its state is read."""

    def __init__(self):
        self.ended, self.reads = False, 0

    @property
    def busy(self):
        self.reads += 1
        return not self.ended


def test_ended_rows_leave_and_the_order_of_arrival_stays():
    rows, every = UnfinishedRows(), [SimpleNamespace(busy=True) for _ in range(4)]
    for row in every:
        rows.add(row)
    assert list(rows) == every
    every[1].busy = every[3].busy = False
    assert list(rows) == [every[0], every[2]]


def test_an_ended_row_is_read_once():
    rows, every = UnfinishedRows(), []
    for _ in range(50):
        every.append(Row())
        rows.add(every[-1])
        every[-1].ended = True
        assert not list(rows)
    assert [row.reads for row in every] == [1] * 50


class Counted(RequestQueue):
    """A queue that counts its steps, and the requests that it ended. It has no memory."""

    def __init__(self, dead, *cancelled):
        self.dead, self.steps, self.aborted = dead, 0, []
        requests = [SimpleNamespace(cancel_at=at) for at in cancelled]
        self.waiting = [SimpleNamespace(task=SimpleNamespace(request=request)) for request in requests]

    def start_memory(self):
        raise NotImplementedError

    def new_row(self, task):
        raise NotImplementedError

    def abort(self, row):
        self.aborted.append(row)

    def work(self):
        self.steps += 1


def test_a_round_ends_the_requests_whose_clients_left_and_runs_a_step_unless_the_process_ended():
    queue = Counted(False, None, BEFORE_A_SLOT, 7)
    queue.update()
    assert (queue.steps, queue.aborted) == (1, [queue.waiting[1]])
    dead = Counted(True)
    dead.update()
    assert dead.steps == 0
