"""Growing tables: equal to full-size tables, and no cost for a declared context."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachesim.engines.ik_llama.memory.cells import Cells as IkCells
from cachesim.engines.llama_cpp.memory.cells import Cells
from cachesim.engines.shared import kv_rows as row_tables
from cachesim.engines.shared.kv_rows import empty_rows, extend_array, grown_size, read_rows, replace_rows, write_rows
from cachesim.model import KVRows
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import play

HUGE = 2**31 - 1
LINE = "S40.A30>5/B20>r4@1/S.C25>3/S.A30.D9>2@0/{save@0 x}/{restore@1 x}/S.A30.D9.E3>2@1"


def rows(*values):
    one = np.array(values, np.uint64)
    wide = np.array(values, np.float64)[:, None, None] * np.ones((1, 2, 3))
    return KVRows(one, wide, -wide)


def test_a_table_doubles_and_never_passes_its_size():
    assert [grown_size(0, n, 1000) for n in (0, 1, 256, 257, 999, 1000)] == [0, 256, 256, 512, 1000, 1000]
    assert grown_size(300, 200) == 300


def test_what_was_there_stays_and_the_rest_is_filled():
    assert extend_array(np.array([3, 4]), 4, fill=-1).tolist() == [3, 4, -1, -1]
    assert extend_array(np.ones((2, 1), bool), 2, axis=1).tolist() == [[True, False]] * 2


def test_rows_that_were_never_written_are_zero():
    kept = empty_rows((0,))
    write_rows(kept, 0, np.array([1, 3]), rows(7, 8))
    found = read_rows(kept[0], slice(0, 1000))
    assert found.digest[:5].tolist() == [0, 7, 0, 8, 0] and found.k.shape == found.v.shape == (1000, 2, 3)
    assert not found.k[4:].any() and (found.v[3] == -8).all()
    assert read_rows(kept[0], np.array([999, 3])).digest.tolist() == [0, 8]


def test_a_copied_buffer_is_overwritten_to_its_end():
    kept = empty_rows((0,))
    kept[0] = rows(1, 2, 3)
    replace_rows(kept, 0, rows(9))
    assert read_rows(kept[0], slice(0, 3)).digest.tolist() == [9, 0, 0] and not read_rows(kept[0], slice(1, 3)).k.any()
    replace_rows(kept, 0, KVRows(np.zeros(2, np.uint64), None, None))
    assert not read_rows(kept[0], slice(0, 3)).k.any()


def whole(cells, n, together):
    """First fit in a table that is there in full, cell by cell."""
    pos = np.full(cells.size, -1)
    pos[: len(cells.pos)] = cells.pos
    start = 0 if cells.head > cells.used + 2 * n else cells.head
    ring = [i % cells.size for i in range(start, start + cells.size)]
    if together:
        fits = [i for i in ring if i + n <= cells.size and (pos[i : i + n] < 0).all()]
        return list(range(fits[0], fits[0] + n)) if fits else None
    free = [i for i in ring if pos[i] < 0][:n]
    return free if len(free) == n else None


@given(st.integers(1, 40), st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 39)), max_size=12))
def test_cells_are_found_as_in_a_table_that_is_there_in_full(size, steps):
    with patch.object(row_tables, "FIRST", 1):
        cells, next_pos = Cells(size, 1), 0
        for together, n, cut in steps:
            want = whole(cells, n, together)
            found = (cells.find_contiguous if together else cells.find)(n, None) if n <= size else None
            assert (None if found is None else list(found)) == want
            if found is not None:
                cells.place(found, range(next_pos, next_pos + n), 0)
                cells.head, next_pos = int(found[-1]) + 1, next_pos + n
            if next_pos:
                cells.remove(0, cut % next_pos, cut % next_pos + n)
            cells.check()
            assert len(cells.pos) <= size


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(1, 9), st.integers(0, 39)), max_size=12))
def test_neighbours_are_found_as_in_a_table_that_is_there_in_full(size, steps):
    def run(first):
        with patch.object(row_tables, "FIRST", first):
            cells, out = IkCells(size, 1), []
            for number, (n, cut) in enumerate(steps):
                found = cells.find(n)
                out.append((found, cells.head, cells.first(0)))
                if found is not None:
                    pos = np.arange(10 * number, 10 * number + n)
                    cells.place(found, pos, pos, 0)
                    cells.head = (found + n) % size
                cells.remove(0, cut, cut + 5)
                cells.check()
            return out

    assert run(1) == run(64)


@pytest.mark.parametrize("model", ["GGGA", "W8 A", "CA"])
@pytest.mark.parametrize("engine", ["llama_cpp@b10587", "ik_llama@main"])
def test_no_bit_depends_on_the_room_of_a_table(engine, model):
    def run(first, ctx_size):
        outputs, logs = [], []

        class Ear:
            def started(self, server): ...
            def begins(self, number, step): ...
            def acted(self, number, action, reply): ...

            def answered(self, number, request, answer):
                outputs.append([(said.pos, said.digest, said.logits.tobytes()) for said in answer.outputs])

        server = {"parallel": 2, "ctx_size": ctx_size}
        with patch.object(row_tables, "FIRST", first):
            scenario = from_line(LINE, model=model, profiles=(engine,), server=server)
            logs = [event for event in play(scenario, engine, "exact", Ear()).events if event.logged]
        return outputs, logs

    small = run(1, 1024)
    assert small[0] and small == run(4096, 1024)
    assert small[0] == run(1, HUGE)[0]


@pytest.mark.parametrize("kind, size", [(Cells, HUGE), (IkCells, HUGE)])
def test_a_declared_context_costs_nothing(kind, size):
    cells = kind(size, 64)
    found = cells.find(3, None) if kind is Cells else cells.find(3)
    assert (found[0] if kind is Cells else found) == 0
    assert cells.pos.nbytes + cells.seqs.nbytes < 2**16
