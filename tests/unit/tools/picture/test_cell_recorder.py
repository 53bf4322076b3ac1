"""Recorder of the cells of a shared cache, with a server whose cells are given."""

from __future__ import annotations

from types import SimpleNamespace

from cachesim.tools.picture.cell_recorder import REQUESTS, CellHistory, CellRecorder


def layer(part="base", recurrence=None, chooser=None, ratio=0, attention=True):
    chooser = SimpleNamespace(part=chooser) if chooser else None
    return SimpleNamespace(part=part, recurrence=recurrence, ratio=ratio,
                           attention=SimpleNamespace(chooser=chooser) if attention else None)  # fmt: skip


def server(*layers, blocks=(), nodes=()):
    model = SimpleNamespace(spec=SimpleNamespace(layers=layers)) if layers else None
    cells = SimpleNamespace(blocks=lambda: blocks, nodes=lambda: nodes)
    return SimpleNamespace(model=model, cache_cells=cells)


def test_blocks_are_recorded_if_there_are_any_else_nodes():
    recorder = CellRecorder()
    recorder.started(server(blocks=("a",), nodes=("n",)))
    recorder.answered(1, None, None)
    recorder.started(server(nodes=("n",)))
    recorder.acted(0, None, {})
    recorder.answered(2, None, None)
    found = recorder.cells()
    assert (found.blocks, list(found.nodes.items())) == ({1: ("a",)}, [(0, ("n",)), (2, ("n",))])


def test_cells_of_the_first_requests_are_recorded():
    recorder = CellRecorder()
    recorder.started(server(blocks=("a",)))
    for number in (REQUESTS, REQUESTS - 1, 3):
        recorder.answered(number, None, None)
    assert list(recorder.cells().blocks) == [3, REQUESTS - 1]


def test_the_parts_of_the_memory_are_those_of_the_layers():
    recorder = CellRecorder()
    recorder.started(server(layer(), layer("swa", ratio=8), layer(ratio=4, chooser="idx"), layer(ratio=8),
                            layer("none", recurrence="G", attention=False)))  # fmt: skip
    found = recorder.cells()
    assert found == CellHistory(frozenset({"base", "swa", "idx", "none", "state"}), [4, 8]) and found.strips == 3
    recorder.started(server(layer()))
    assert recorder.cells() == CellHistory(frozenset({"base"}), []) and recorder.cells().strips == 0
    recorder.started(server())
    assert recorder.cells() == CellHistory(frozenset(), [])
