"""The cell table: search of neighbours, placing, removing, moving, labels; and layouts of models."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.base.tokens import POS_INF
from cachesim.engines.ik_llama.flags import read_flags, write_flags
from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.model_layout import model_kind, saved_bytes


def table(size=16, n_seq=2, **held):
    """Return a table in which each sequence has positions from 0 on in the next cells: s0=4."""
    cells = Cells(size, n_seq)
    for name, n in held.items():
        cells.place(cells.used, np.arange(n), np.arange(n), int(name[1:]))
    cells.check()
    return cells


@pytest.mark.parametrize(("held", "gone", "head", "n", "first", "after"), [
    ({}, None, 0, 4, 0, 0), ({"s0": 4}, None, 4, 4, 4, 4), ({"s0": 4}, None, 0, 4, 4, 4),
    ({"s0": 4}, None, 2, 12, 4, 4),
    ({"s0": 4}, None, 13, 4, 4, 4), ({"s0": 4}, None, 12, 4, 12, 12), ({"s0": 4}, None, 0, 13, None, 0),
    ({"s0": 16}, None, 3, 1, None, 16), ({"s0": 16}, (3, 5), 0, 2, 3, 3), ({"s0": 16}, (3, 5), 9, 2, 3, 3),
    ({"s0": 16}, (3, 5), 4, 2, 3, 3), ({"s0": 16}, (3, 5), 0, 3, None, None), ({}, None, 0, 17, None, 0),
    ({"s0": 6}, (0, 2), 1, 2, 6, 6), ({}, None, 16, 2, 0, 0), ({}, None, 0, 16, 0, 0), ({}, None, 3, 16, 0, 0),
    ({"s0": 16}, (0, 16), 9, 16, 0, 0),
])  # fmt: skip
def test_neighbouring_free_cells_are_searched_once_around_the_ring(held, gone, head, n, first, after):
    cells = table(**held)
    if gone:
        cells.remove(0, *gone)
    cells.head = head
    assert cells.find(n) == first
    assert after is None or cells.head == after


def test_contiguous_cells_are_held_as_a_slice():
    cells = table(s0=3, s1=2)
    assert cells.held(0) == slice(0, 3) and cells.held(1) == slice(3, 5)
    cells.remove(0, 1, 2)
    assert cells.held(0).tolist() == cells.of(0).tolist() == [0, 2]
    cells.remove(1, 0, 2)
    assert cells.held(1).tolist() == []


def test_a_place_has_labels_own_positions_and_an_end():
    cells = table(s0=3)
    cells.place(5, np.array([7, 3]), np.array([8, 4]), 1)
    assert cells.pos[:8].tolist() == [0, 1, 2, -1, -1, 7, 3, -1] and cells.own[5:7].tolist() == [8, 4]
    assert (cells.used, cells.pos_max(1), cells.first(1), cells.of(1).tolist()) == (5, 7, 7, [5, 6])
    cells.place(7, np.array([], int), np.array([], int), 1)
    assert (cells.used, cells.pos_max(1)) == (5, 7)
    assert (cells.pos_max(0), cells.first(0)) == (2, 0)
    cells.check()


@pytest.mark.parametrize(("p0", "p1", "left", "head"), [
    (2, POS_INF, [0, 1], 2), (0, 2, [2, 3], 0), (1, 3, [0, 3], 1), (4, POS_INF, [0, 1, 2, 3], 8), (0, POS_INF, [], 0),
    (3, 4, [0, 1, 2], 3), (3, 3, [0, 1, 2, 3], 8),
])  # fmt: skip
def test_positions_are_removed_and_the_search_goes_back_to_the_first_free_cell(p0, p1, left, head):
    cells = table(s0=4, s1=4)
    cells.head = 8
    cells.remove(0, p0, p1)
    assert cells.pos[cells.of(0)].tolist() == left and cells.head == head
    assert (cells.used, cells.pos_max(0), cells.pos_max(1)) == (4 + len(left), max(left, default=-1), 3)
    assert (cells.own[:4] >= 0).sum() == len(left)
    cells.check()


def test_moved_positions_and_labels():
    cells = table(s0=6, s1=3)
    cells.head = 9
    assert cells.move(0, 2, 5, 10).tolist() == [2, 3, 4]
    assert cells.pos[:6].tolist() == cells.own[:6].tolist() == [0, 1, 12, 13, 14, 5]
    assert (cells.head, cells.pos_max(0), cells.pos_max(1), cells.first(0)) == (0, 14, 2, 0)
    cells.relabel(0, 20)
    assert (cells.pos[0], cells.own[0], cells.pos_max(0), cells.first(0)) == (20, 0, 20, 20)
    cells.check()


def spoil_used(cells):
    cells.used += 1


def spoil_seqs(cells):
    cells.seqs[1, 9] = True


@pytest.mark.parametrize("spoil", [spoil_used, spoil_seqs])
def test_a_check_finds_an_inconsistent_table(spoil):
    cells = table(s0=4)
    spoil(cells)
    with pytest.raises(Crash):
        cells.check()


@pytest.mark.parametrize(("name", "attention", "windows", "states", "hybrid", "recurrent", "n_swa"), [
    ("AA", (0, 1), (), (), False, False, 0), ("W8 A", (0, 1), (0,), (), False, False, 8),
    ("GA", (1,), (), (0,), True, False, 0), ("SS", (), (), (0, 1), False, True, 0),
    ("HH", (0, 1), (), (0, 1), True, False, 0),
    ("deepseek4-states", (0, 2, 3), (0, 2), (1,), True, False, 128),
])  # fmt: skip
def test_the_layout_of_a_model(name, attention, windows, states, hybrid, recurrent, n_swa):
    kind = model_kind(name)
    assert (kind.attention, kind.windows, kind.states) == (attention, windows, states)
    assert (kind.hybrid, kind.recurrent, kind.n_swa) == (hybrid, recurrent, n_swa)


@pytest.mark.parametrize(("name", "n", "partial", "size"), [
    ("AA", 10, False, 20 + 2 * 24 + 10 * (8 + 256)), ("AA", 10, True, 20 + 2 * 24 + 10 * 8),
    ("GA", 10, False, 20 + 2 * 40 + 35840 + 10 * (8 + 128)), ("GA+M", 10, False, 20 + 3 * 40 + 35840 + 10 * (8 + 256)),
    ("AA", 0, False, 68),
])  # fmt: skip
def test_the_bytes_of_a_saved_sequence(name, n, partial, size):
    assert model_kind(name).state_bytes(n, partial) == size


@pytest.mark.parametrize(("name", "row", "state", "head", "whole", "partial"), [
    ("GA", 128, 0, 16, 37300, 36020), ("A@128/0/64", 128, 0, 64, 1404, 124),
    ("GA@512/1000/80", 512, 1000, 80, 6300, 1180),
    ("W8 A@128/0/64/32", 128, 0, 64, 20 + 2 * 24 + 10 * (8 + 128 + 32), 20 + 2 * 24 + 10 * 8),
])  # fmt: skip
def test_a_model_may_have_declared_sizes(name, row, state, head, whole, partial):
    """Bytes of a row, of a state, and the width of a head; a copy of ten tokens, with its rows and without."""
    kind = model_kind(name)
    assert (kind.name, kind.row_bytes, kind.row_of_state, kind.head) == (name, row, state, head)
    assert (kind.state_bytes(10, False), kind.state_bytes(10, True)) == (whole, partial)
    assert kind.spec.notation == name.partition("@")[0]


def test_bytes_of_layers_with_and_without_states():
    assert (saved_bytes(3, 2, 5, 0), saved_bytes(3, 2, 0, 100)) == (20 + 72 + 26, 20 + 120 + 100 + 16)


@pytest.mark.parametrize(("name", "private", "words", "mrope"), [
    ("llama", False, True, False), ("qwen35d64", False, True, True), ("deepseek4", True, False, False),
    ("qwen", False, False, False),
])  # fmt: skip
def test_models_by_name(name, private, words, mrope):
    if name == "qwen":
        with pytest.raises(BadInput, match="qwen35d64"):
            model_kind("qwen35d")
        return
    kind = model_kind(name)
    assert (kind.private, kind.words, kind.mrope) == (private, words, mrope)


@pytest.mark.parametrize(("words", "options"), [
    ("--spec-type mtp:n_max=4", {"spec_type": "mtp", "spec_draft_n_max": 4}),
    ("--spec-type mtp", {"spec_type": "mtp", "spec_draft_n_max": 1}),
    ("--spec-type mtp:p_min=0,n_max=2", {"spec_type": "mtp", "spec_draft_n_max": 2}),
    ("--no-context-shift", {"context_shift": False}), ("--context-shift on", {"context_shift": True}),
    ("-fa off -t 3", {"flash_attn": False}),
])  # fmt: skip
def test_a_command_line_is_read(words, options):
    assert read_flags(words.split()).options == options


@pytest.mark.parametrize(("options", "words"), [
    ({"spec_type": "mtp", "spec_draft_n_max": 4}, "--spec-type mtp:n_max=4"),
    ({"spec_type": "mtp"}, "--spec-type mtp:n_max=1"), ({"spec_type": "none"}, ""),
    ({"context_shift": False, "parallel": 2}, "-np 2 --context-shift off"),
])  # fmt: skip
def test_a_command_line_is_written(options, words):
    assert write_flags(options) == words.split()
