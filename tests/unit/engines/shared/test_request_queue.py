"""The rows in progress are found without the rows that have ended."""

from types import SimpleNamespace

from cachesim.engines.shared.request_queue import UnfinishedRows


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
