"""Does everything that writes a table tell of it? Tables are compared before and after each of their operations."""

from __future__ import annotations

import ast
import inspect
from random import Random

import numpy as np
import pytest

from cachesim.engines.ik_llama.memory import cells as ik_cells
from cachesim.engines.llama_cpp.memory import cells as llama_cells
from cachesim.engines.shared.rows import RowTable, put, put_all
from cachesim.engines.shared.writes import ALL, NONE, EntryRange, Writes, still, stretch_of
from cachesim.model import Rows

SIZE, SEQS = 24, 3


class Unchanged(Exception):
    """Something was written of which nothing was told."""


def image(table, size=SIZE):
    """What a judge reads of each cell."""
    names = [name for name in ("pos", "own", "seqs") if hasattr(table, name)]
    found = [[] for _ in range(size)]
    for name in names:
        array = np.atleast_2d(getattr(table, name))
        for row in array:
            for cell in range(size):
                empty = 0 if name == "seqs" else -1
                found[cell].append(int(row[cell]) if cell < len(row) else empty)
    return found


def compare(before, after, written):
    """Raise Unchanged unless every cell that differs was told of."""
    for cell, (was, now) in enumerate(zip(before, after, strict=True)):
        if was != now and not written.first <= cell < written.stop:
            raise Unchanged(f"cell {cell}: {was} -> {now}")


def llama_step(rng, table):
    """One operation of llama.cpp's table, as the memory uses them."""
    seq, p0 = rng.randrange(SEQS), rng.randrange(8)
    match rng.randrange(9):
        case 0 | 1 | 2:
            cells = table.find(rng.randrange(1, 5), None)
            if cells is not None:
                start = table.span(seq)[1] + 1
                pos = range(start, start + len(cells))
                table.place(cells, pos if rng.random() < 0.7 else np.arange(pos.start, pos.stop), seq)
                table.head = int(cells[-1]) + 1
        case 3:
            table.remove(rng.choice([seq, seq, -1]), p0, p0 + rng.randrange(1, 20))
        case 4:
            if rng.random() < 0.2:
                table.keep(seq)
            elif rng.random() < 0.1:
                table.clear()
        case 5:
            table.move(seq, p0, p0 + 9, rng.choice([-2, 3]))
        case 6:
            table.divide(seq, p0, p0 + 9, 2)
        case 7:
            other = (seq + 1) % SEQS
            table.remove(other, 0, 99)
            table.share(seq, other, p0, p0 + 5)
        case 8:
            saved, cells = table.save(), np.flatnonzero(table.pos >= 0)[:4]
            if rng.random() < 0.5:
                return lambda: table.restore(saved)
            if len(cells):
                part = table.save_at(cells)
                return lambda: table.restore_at(part, cells) if len(table.pos) > cells[-1] else None
    return None


def ik_step(rng, table):
    """One operation of ik_llama.cpp's table."""
    seq, p0 = rng.randrange(SEQS), rng.randrange(8)
    match rng.randrange(5):
        case 0 | 1:
            n, start = rng.randrange(1, 5), table.pos_max(seq) + 1
            first = table.find(n)
            if first is not None:
                pos = np.arange(start, start + n)
                table.place(first, pos, pos, seq)
                table.head = (first + n) % SIZE
        case 2:
            table.remove(seq, p0, p0 + rng.randrange(1, 20))
        case 3:
            table.move(seq, p0, p0 + 9, 3)
        case 4:
            used = np.flatnonzero(table.pos >= 0)
            if len(used):
                table.relabel(int(rng.choice(used)), rng.randrange(30))
    return None


def play(cells, step, rounds=400, length=12):
    """Many stories of a table; raises Unchanged where one is not told whole."""
    rng = Random(7)
    for _ in range(rounds):
        table, later = cells(SIZE, SEQS), None
        table.writes.look(play)
        for _ in range(length):
            before = image(table)
            if later is not None and rng.random() < 0.5:
                later()
                later = None
            else:
                later = step(rng, table) or later
            compare(before, image(table), table.writes.look(play))


TABLES = {"llama": (llama_cells, llama_step), "ik": (ik_cells, ik_step)}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_cells_tells_of_everything_that_is_written(name):
    module, step = TABLES[name]
    play(module.Cells, step)


class Silenced(ast.NodeTransformer):
    """Takes the ``number``-th telling out of a module."""

    def __init__(self, number):
        self.left = number

    def visit_Call(self, node):
        self.generic_visit(node)
        if ast.unparse(node.func) not in ("self.writes.touch", "self._told"):
            return node
        self.left -= 1
        if self.left != -1:
            return node
        if ast.unparse(node.func) == "self.writes.touch":
            return ast.Constant(None)
        return ast.Call(ast.Name("index", ast.Load()), node.args, [])


def silenced(module, number):
    """The module's Cells without one of its tellings, None = there are no more."""
    tree = ast.parse(inspect.getsource(module))
    cutter = Silenced(number)
    tree = ast.fix_missing_locations(cutter.visit(tree))
    if cutter.left >= 0:
        return None
    space = {"__name__": module.__name__}
    exec(compile(tree, module.__file__, "exec"), space)
    return space["Cells"]


@pytest.mark.parametrize(("name", "tellings"), [("llama", 10), ("ik", 4)])
def test_a_forgotten_telling_is_found(name, tellings):
    module, step = TABLES[name]
    planted = [silenced(module, number) for number in range(tellings)]
    assert silenced(module, tellings) is None
    for cells in planted:
        with pytest.raises(Unchanged):
            play(cells, step, 4000)


def rows(*digests):
    return Rows(np.array(digests, np.uint64), None, None)


def test_rows_are_written_by_put_and_by_nothing_else():
    table, reader = RowTable((3, 5)), object()
    assert table.writes.look(reader) == ALL and table.writes.look(reader) == NONE
    put(table, 3, slice(2, 4), rows(7, 8))
    assert table[3].digest[:4].tolist() == [0, 0, 7, 8] and table.writes.look(reader) == (2, 4)
    put(table, 3, np.array([9, 6]), rows(1, 2))
    assert table.writes.look(reader) == (6, 10)
    put(table, 3, np.array([], np.int64), rows())
    assert table.writes.look(reader) == NONE
    with pytest.raises(ValueError, match="read-only"):
        table[3].digest[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        table[3].digest[2:4] += np.uint64(1)
    for change in (lambda: table.pop(3), table.clear, lambda: table.update({3: rows()}), lambda: table.setdefault(4)):
        with pytest.raises(TypeError):
            change()
    put_all(table, 3, rows(1))
    assert table.writes.look(reader) == ALL
    with pytest.raises(ValueError, match="read-only"):
        table[3].digest[0] = 2
    put(table, 3, slice(0, 1), rows(5))
    assert table[3].digest.tolist() == [5] and table.writes.look(reader) == (0, 1)


def test_rows_with_numbers_are_locked_too():
    table = RowTable((0,))
    put(table, 0, slice(0, 1), Rows(np.array([1], np.uint64), np.ones((1, 2)), np.ones((1, 2))))
    put(table, 0, slice(300, 301), Rows(np.array([1], np.uint64), np.ones((1, 2)), np.ones((1, 2))))
    with pytest.raises(ValueError, match="read-only"):
        table[0].digest[0] = 1


def test_only_who_looked_last_is_told_and_one_who_looks_once_is_not_noticed():
    writes, one, other = Writes(), object(), object()
    writes.look(one)
    writes.touch(3, 5)
    assert writes.look(None) == ALL
    assert writes.look(one) == EntryRange(3, 5) and writes.look(one) == NONE
    writes.look(other)
    assert writes.look(one) == ALL


@pytest.mark.parametrize(("written", "kept"), [
    (NONE, 4), (ALL, 0), (EntryRange(0, 10), 4), (EntryRange(14, 20), 4), (EntryRange(13, 20), 3),
    (EntryRange(11, 12), 1), (EntryRange(9, 11), 0),
])  # fmt: skip
def test_what_was_not_written_of_a_stretch_from_cell_10(written, kept):
    assert still(written, 10, 4) == kept


def test_the_stretch_of_cells():
    assert stretch_of(slice(3, None)).first == 3 and stretch_of(slice(None)) == ALL
    assert stretch_of(range(2, 5)) == (2, 5) and stretch_of(np.array([4, 1])) == (1, 5)
    assert stretch_of(np.array([], np.int64)) == NONE
