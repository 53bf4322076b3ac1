"""Tests of the forward pass: its calls to a store, its behaviour with a faulty store, and its pinned bits."""

import hashlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cachesim.base.errors import Crash
from cachesim.model import KVRows, LayerState, TokenRun, make_model, same_state
from tests.unit.model.plain_store import ALL_KINDS, PlainStore, feed, prefill

TOKENS = random.Random(7).sample(range(5000), 600)
PINNED = {
    "AAAA": "1a73ae63729eb90c",
    "W8 A W3": "1228d734b0af2f33",
    "GGGA": "94bec3de9b2e9980",
    "SSCC": "79d32ee929276325",
    "HH": "75a3803a28c288b6",
}
IN_A_PROCESS = "import tests.unit.model.test_forward as t; print(t.json.dumps({n: t.bits(n) for n in t.PINNED}))"


def bits(notation: str) -> str:
    """Return a digest of everything that a model computes over 600 tokens, in uneven chunks."""
    model, store = make_model(notation, True), PlainStore(1)
    found = hashlib.sha256()
    for at, stop in ((0, 1), (1, 40), (40, 599), (599, 600)):
        said = feed(model, store, [TokenRun(0, at, TOKENS[at:stop])])[0]
        assert said.x is not None
        found.update(said.digest.tobytes() + said.x.tobytes() + model.readout(said.x).tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("notation", PINNED)
def test_bits_are_pinned(notation: str) -> None:
    """Results are identical on every machine, processor, BLAS and NumPy. A changed pin means a changed model; state
    it."""
    assert bits(notation) == PINNED[notation]


@pytest.mark.long
@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_do_not_matter(threads: str) -> None:
    """Run in a separate process, because BLAS reads its number of threads at the start. Chunks are large enough to
    share."""
    env = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    done = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS],
        cwd=Path(__file__).parents[3], env=env, capture_output=True, text=True, check=True,
    )                                                           # fmt: skip
    assert json.loads(done.stdout) == PINNED


def test_make_model_builds_once() -> None:
    assert make_model("GGGA", True) is make_model("GGGA", True) is not make_model("GGGA", False)


def test_provenance_alone_is_the_same_provenance() -> None:
    stores = PlainStore(), PlainStore()
    said = [
        prefill(make_model(ALL_KINDS, exact), store, 0, TOKENS[:80], 9)
        for exact, store in zip((True, False), stores, strict=True)
    ]
    assert (said[0].digest == said[1].digest).all() and said[0].x is not None and said[1].x is None
    assert all(same_state(state, stores[1].states[key]) for key, state in stores[0].states.items())
    assert all(state.h is None and state.conv_x is None for state in stores[1].states.values())


def test_provenance_has_no_logits() -> None:
    with pytest.raises(Crash):
        make_model("A", False).readout(np.zeros((1, 32)))


@pytest.mark.parametrize("exact", [True, False])
def test_everything_put_is_frozen_or_fresh(exact: bool) -> None:
    model, store = make_model(ALL_KINDS, exact), PlainStore()
    prefill(model, store, 0, TOKENS[:20], 6)
    checkpoint = dict(store.states)
    copies = {key: LayerState(*(None if x is None else np.copy(x) for x in state)) for key, state in checkpoint.items()}
    prefill(model, store, 0, TOKENS[20:80], 6, pos0=20)
    assert all(same_state(checkpoint[key], copies[key]) for key in checkpoint)
    assert not any(same_state(checkpoint[key], store.states[key]) for key in checkpoint)
    assert not any(x.flags.writeable for state in checkpoint.values() for x in state if isinstance(x, np.ndarray))


@pytest.mark.parametrize("fault", ["missing", "twice", "stale", "foreign"])
@pytest.mark.parametrize("kind", ["A", "W60", "H"])
def test_a_faulty_store_shows(kind: str, fault: str) -> None:
    model, store = make_model(kind, True), PlainStore()
    prefill(model, store, 0, TOKENS[:50], 50)
    prefill(model, store, 1, TOKENS[30:80], 50)
    cells, other = store.cells[0], store.cells[1]
    if fault == "missing":
        del cells[20]
    elif fault == "twice":
        cells.insert(20, cells[20])
    elif fault == "foreign":
        cells[20] = (20, other[20][1])
    else:
        cells[20:21] = [(20, other[20][1]), cells[20]]
    good = PlainStore()
    prefill(model, good, 0, TOKENS[:50], 50)
    wrong, right = (feed(model, s, [TokenRun(0, 50, TOKENS[50:60])])[0] for s in (store, good))
    assert not (wrong.digest == right.digest).any() and wrong.x is not None and right.x is not None
    assert not (wrong.x == right.x).all(axis=1).any()


def test_rows_beyond_the_query_are_masked() -> None:
    """A slot cut back without removing rows: stale rows at higher positions become visible only when they are
    passed."""
    model, store, good = make_model("A", True), PlainStore(), PlainStore()
    prefill(model, store, 0, TOKENS[:30], 30)
    store.cells[0] = [(pos, cell) for pos, cell in store.cells[0] if pos < 10 or pos >= 20]
    prefill(model, good, 0, TOKENS[:10], 10)
    wrong, right = (feed(model, s, [TokenRun(0, 10, TOKENS[40:60])])[0] for s in (store, good))
    assert wrong.x is not None and right.x is not None
    assert (wrong.digest == right.digest).tolist() == [True] * 10 + [False] * 10
    assert (wrong.x == right.x).all(axis=1).tolist() == [True] * 10 + [False] * 10


def test_a_store_that_miscounts_is_our_fault() -> None:
    store = PlainStore()
    store.positions = lambda part, run: np.arange(5)         # type: ignore[method-assign]
    with pytest.raises(Crash, match="5 positions and 2 rows"):
        feed(make_model("A", False), store, [TokenRun(0, 0, [1, 2])])


@pytest.mark.parametrize("exact", [True, False])
def test_shift(exact: bool) -> None:
    """Rows moved back by 7: digests as if written there, K rotated and bounded, V and the input unchanged."""
    model, store = make_model("A", exact), PlainStore()
    prefill(model, store, 0, TOKENS[:80], 80)
    rows, old = store.rows_of(0, 0), np.arange(80)
    moved = model.shift_rows(0, rows, old, old - 7)
    assert (model.shift_rows(0, moved, old - 7, old).digest == rows.digest).all()
    assert not (moved.digest == rows.digest).any()
    if exact:
        assert rows.k is not None and moved.k is not None and moved.v is rows.v
        assert (moved.k == np.rint(moved.k)).all() and not (moved.k == rows.k).all()
        back = model.shift_rows(0, moved, old - 7, old)
        assert back.k is not None and np.abs(back.k - rows.k).max() <= 2            # two roundings, not bit-equal
    assert (model.shift_rows(0, rows, old, old).digest == rows.digest).all()


def test_a_shift_of_a_layer_without_rotation_is_exact() -> None:
    model, late, early = make_model("N", True), PlainStore(), PlainStore()
    prefill(model, late, 0, TOKENS[:80], 80)
    prefill(model, early, 0, TOKENS[7:80], 73)
    old = np.arange(7, 80)
    moved = model.shift_rows(0, KVRows(*(part[7:] for part in late.rows_of(0, 0))), old, old - 7)
    for part, fresh in zip(moved, early.rows_of(0, 0), strict=True):
        assert (part == fresh).all()


@pytest.mark.parametrize(("kind", "rotated"), [("I6", True), ("P8", False), ("B2", True), ("D4.8.3", True)])
def test_a_shift_rotates_index_rows_if_they_have_positions(kind: str, rotated: bool) -> None:
    model = make_model(kind, True)
    rows = KVRows(np.arange(1, 6, dtype=np.uint64), np.full((5, 1, 16), 2.0**20), np.zeros((5, 1, 0)))
    moved = model.shift_rows(-1, rows, np.arange(10, 15), np.arange(3, 8))
    assert moved.k is not None and (moved.k == rows.k).all() != rotated and moved.v is rows.v
    assert (moved.digest * (2 * np.arange(10, 15) + 1).astype(np.uint64)
            == rows.digest * (2 * np.arange(3, 8) + 1).astype(np.uint64)).all()  # fmt: skip


def test_a_layer_without_attention_has_no_rows_to_rotate() -> None:
    k = np.full((2, 2, 16), 2.0**20)
    moved = make_model("G", True).shift_rows(0, KVRows(np.ones(2, np.uint64), k, k), np.arange(2), np.arange(5, 7))
    assert moved.k is k
