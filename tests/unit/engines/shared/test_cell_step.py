"""A pass of the model over rows in numbered cells and states in numbered slots."""

import numpy as np

from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.kv_rows import empty_rows
from cachesim.model import KVRows, TokenRun, parse
from cachesim.model.attention_mask import StretchView


class Memory:
    """Position p of request r is in cell 10 r + p; windows of two tokens."""

    def __init__(self):
        self.kind, self.rows = parse("AW2G"), empty_rows([0, 1])

    def cells(self, layer, request, start, stop):
        return np.arange(10 * request + start, 10 * request + stop)

    def first_read(self, part, start):
        return max(0, start - 1) if part == self.kind.layers[1].part else 0


def rows(*digests):
    return KVRows(np.array(digests, np.uint64), None, None)


STEP = [CellRun(1, 3, (7, 8), {2: "state"}), CellRun(0, 0, (9,), {})]


def test_runs_are_numbered_by_place():
    step = CellStep(Memory(), STEP)
    assert step.runs() == [TokenRun(0, 3, (7, 8)), TokenRun(1, 0, (9,))]
    assert [run.stop for run in STEP] == [5, 1]


def test_rows_are_written_to_the_cells_of_a_run_and_read_from_the_first_that_it_sees():
    memory = Memory()
    CellStep(memory, [CellRun(1, 0, (1, 2, 3), {}), CellRun(0, 0, (4,), {})]).put_rows(0, 0, rows(11, 12, 13))
    step = CellStep(memory, STEP)
    step.put_rows(0, 0, rows(14, 15))
    step.put_rows(1, 0, rows(24, 25))
    assert step.get_rows(0, 0).digest.tolist() == [11, 12, 13, 14, 15]
    assert step.get_rows(1, 0).digest.tolist() == [0, 24, 25]
    assert step.get_rows(0, 1).digest.tolist() == [0]


def test_a_window_is_masked_by_position_and_a_whole_conversation_is_a_stretch():
    memory = Memory()
    step, full, window = CellStep(memory, STEP), memory.kind.layers[0].part, memory.kind.layers[1].part
    assert step.positions(full, 0).tolist() == [0, 1, 2, 3, 4] and step.positions(window, 0).tolist() == [2, 3, 4]
    whole = step.view(full, 0, np.array([3, 4]))
    assert isinstance(whole, StretchView) and (whole.n, whole.t) == (5, 2)
    part = step.view(window, 0, np.array([3, 4]))
    assert not isinstance(part, StretchView) and part.positions.tolist() == [2, 3, 4]


def test_states_before_a_run_are_its_own_and_states_after_it_are_kept_apart():
    step = CellStep(Memory(), STEP)
    assert (step.get_state(2, 0), step.get_state(2, 1)) == ("state", None)
    step.put_state(2, 0, "later")
    assert (step.after, step.get_state(2, 0)) == ([{2: "later"}, {}], "state")
