"""Memories with index rows and compressed rows: what they remove, keep, save and restore, and their sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.context import Context
from cachesim.engines.llama_cpp.memory.create_memory import CLASSES, create_memory
from cachesim.engines.llama_cpp.memory.hybrid_memory import Sizes, can_shift, window_cells
from cachesim.engines.llama_cpp.memory.model_layout import KIND_WORDS, model_kind
from cachesim.engines.llama_cpp.memory.newest_layout import NEWEST, Widths, dsv4_shape, memory_class, stored_bytes
from cachesim.engines.llama_cpp.memory.saved_state import StateNumbers
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, DecodeBatch, Ubatch
from cachesim.engines.llama_cpp.memory.ubatch_view import CompressedUbatchStore
from cachesim.events import SeqRm
from cachesim.model import TokenRun, make_model, parse
from cachesim.model.store import index_of
from cachesim.oracle.cold_run import cold
from tests.unit.engines.llama_cpp.memory.helpers import World, held

MODELS = {"dsa": "I8 I8", "dsa_iswa": "W8 I8", "msa": "A B2", "hybrid_idx": "G P8", "dsv4": "W8 D4.8.3 D8.8"}
FORM = StateNumbers(12, 16)


class NewestWorld(World):
    """A world whose memory is of the class that the model has."""

    def __init__(self, name, traits=None, n_rs_seq=0, **more):
        super().__init__(MODELS.get(name, name), **more)
        old = self.memory
        sizes = old.sizes._replace(n_rs_seq=n_rs_seq, unified=old.sizes.unified and self.kind.kind != "dsv4")
        self.net = make_model(self.kind.spec, exact=False)
        refuses = lambda pos, p0, p1, planes: 0 < p0 <= pos < p1 and not (  # noqa: E731
            1 <= pos - p0 + 1 <= planes.n_rs_seq and not planes.pending)
        traits = traits or BuildTraits()
        self.memory = create_memory(self.kind, sizes, self.net, old.keep, refuses, self.events.append, traits)
        self.context = type(self.context)(self.memory, self.net, 2048, sizes.n_ubatch, self.events.append)

    def cold(self, n, base=100):
        """Return the cold run of the tokens that ``go`` decodes."""
        return cold(self.net, [base + pos for pos in range(n)], logits_at=())

    def numbered(self, seq=0, n=None):
        """Return the digests of the compressed rows of the first n tokens, by the number of their layer."""
        n = self.memory.pos_max(seq) + 1 if n is None else n
        return {layer: rows.digest.tolist() for _, _, table in self.memory.saved_rows(seq, n)
                for layer, rows in table.items()}  # fmt: skip


def test_without_a_model_no_compressed_rows_are_kept():
    memory = NewestWorld("dsv4").memory
    assert [{*table} for table in memory.compressed] == [{index_of(1), index_of(2)}]
    bare = create_memory(memory.kind, memory.sizes, None, memory.keep, memory.refuses, print, memory.traits)
    assert bare.compressed == [{}] and bare.state_write(0, False).compressed == {}


@pytest.mark.parametrize("name", NEWEST)
def test_a_model_has_the_memory_of_its_layers(name):
    kind = model_kind(MODELS[name])
    assert (kind.kind, memory_class(kind.spec.layers), name in KIND_WORDS) == (name, name, True)
    assert type(NewestWorld(name).memory) is CLASSES[name]


def test_older_models_have_none_of_them():
    assert [memory_class(parse(text).layers) for text in ("AA", "W8 A", "GGGA", "SS", "C W8")] == [""] * 5


@pytest.mark.parametrize(("name", "moves"), [("dsa", True), ("dsa_iswa", False), ("msa", True), ("hybrid_idx", True),
                                             ("dsv4", False)])  # fmt: skip
def test_positions_can_be_moved_where_every_row_belongs_to_one(name, moves):
    kind = model_kind(MODELS[name])
    assert can_shift(kind, Sizes(1, True, 1024, 16, False), is_fixed=False) is moves
    assert can_shift(kind, Sizes(1, True, 1024, 16, True), is_fixed=False) is (moves or name == "dsa_iswa")


@pytest.mark.parametrize("name", ["dsa", "dsa_iswa", "msa", "hybrid_idx"])
def test_index_rows_are_in_the_cells_of_the_attention_rows(name):
    world = NewestWorld(name, n_seq=2, unified=True)
    world.go(0, n=9)
    world.go(1, n=5)
    world.memory.seq_rm(1, 0)
    world.go(0, n=3)
    base, idx = world.memory.parts["base"], world.memory.parts["idx"]
    assert held(base) == held(idx) == list(range(12)) and base.cells(0).of(0) == idx.cells(0).of(0)
    layer = next(i for i, one in enumerate(world.kind.spec.layers) if one.kind in "IPB")
    rows = idx.rows[0][index_of(layer)].digest[:12]
    assert rows.tolist() == world.cold(12).rows(index_of(layer)).digest.tolist()


@pytest.mark.parametrize("name", ["dsa", "msa"])
def test_a_check_finds_rows_in_other_cells(name):
    world = NewestWorld(name)
    world.go(n=4)
    world.memory.parts["idx"].seq_rm(0, 2, POS_INF)
    with pytest.raises(Crash, match="different cells"):
        world.memory.check()


@pytest.mark.parametrize("part", ["base", "idx"])
def test_a_check_of_index_rows_also_checks_every_part(part):
    world = NewestWorld("msa")
    world.go(n=4)
    world.memory.check()
    world.memory.parts[part].streams[0].used += 1
    with pytest.raises(Crash, match="5 KV cells are recorded as used, but 4 hold a token"):
        world.memory.check()


@pytest.mark.parametrize("name", NEWEST)
def test_a_full_state_brings_everything_back(name):
    world = NewestWorld(name, n_seq=2)
    world.go(0, n=21)
    blob = world.memory.state_write(0, partial=False)
    assert blob.size == world.memory.state_size(0, False)
    world.memory.state_read(1, blob)
    world.memory.check()
    assert world.range(1)[1] == 20
    for part, cache in world.memory.parts.items():
        assert held(cache, 1) == (list(range(13, 21)) if part == "swa" else list(range(21)))
    if name == "dsv4":
        assert world.numbered(1) == world.numbered(0)


@pytest.mark.parametrize(("name", "parts"), [
    ("dsa", "base idx"), ("msa", "base idx"), ("dsa_iswa", "swa"), ("hybrid_idx", "recr"), ("dsv4", "swa recr"),
])  # fmt: skip
def test_a_partial_state_has_what_cannot_be_rolled_back(name, parts):
    world = NewestWorld(name)
    world.go(n=21)
    blob = world.memory.state_write(0, partial=True)
    found = [part for part in ("base", "idx", "swa", "recr", "compressed") if getattr(blob, part) is not None]
    assert " ".join(found) == parts


# --- dsa ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("spoilt", [True, False])
def test_a_shift_spoils_index_rows_or_turns_them(spoilt):
    world = NewestWorld("I8", BuildTraits(index_spoilt=spoilt))
    world.go(n=6)
    before = world.memory.parts["idx"].rows[0][index_of(0)].digest[:6].copy()
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, 6, -2)
    world.memory.init_update()
    now = world.memory.parts["idx"].rows[0][index_of(0)].digest[2:6]
    turned = world.net.shift_rows(index_of(0), type(world.net.shift_rows(0, world.memory.parts["base"].rows[0][0],
                                  np.arange(256), np.arange(256)))(before[2:], None, None),
                                  np.arange(2, 6), np.arange(4)).digest  # fmt: skip
    assert (now.tolist() == turned.tolist()) is not spoilt


def test_the_index_rows_of_chosen_blocks_are_turned():
    world = NewestWorld("B2")
    assert not world.memory.index.spoils and NewestWorld("I8").memory.index.spoils


def test_a_shift_of_quantized_rows_may_end_the_process():
    world = NewestWorld("A B2", BuildTraits(shift_ends=True))
    world.go(n=6)
    world.memory.seq_rm(0, 0, 2)
    world.memory.seq_add(0, 2, 6, -2)
    with pytest.raises(ProcessAborted, match="K-shift of quantized rows"):
        world.memory.init_update()


# --- dsv4 --------------------------------------------------------------------------------------------------------

def test_every_sequence_has_its_own_stream_and_its_last_position():
    world = NewestWorld("dsv4", n_seq=2, unified=True)
    world.go(0, n=10)
    world.go(1, n=6)
    assert [cache.n_stream for cache in world.memory.parts.values()] == [2, 2]
    assert (world.range(0), world.range(1), world.range(2 - 1)) == ((9, 9), (5, 5), (5, 5))


def test_compressed_rows_are_those_of_a_cold_run():
    world = NewestWorld("dsv4")
    for n in (3, 1, 7, 2, 10):
        world.go(n=n)
    cold_run = world.cold(23)
    for layer, digests in world.numbered().items():
        assert digests == cold_run.rows(layer).digest.tolist()
    for layer in (1, 2):
        assert world.memory.recr.row(0)[layer].conv.tolist() == cold_run.state_at(layer, 23).conv.tolist()


def test_a_piece_in_the_middle_and_an_end_are_refused():
    world = NewestWorld("dsv4")
    world.go(n=10)
    before = world.numbered()
    world.events.clear()
    assert world.memory.seq_rm(0, 2, 5) is False and world.events == [SeqRm(0, 2, 5, False)]
    assert not world.memory.seq_rm(0, 9)
    assert world.memory.seq_rm(0, 10) and world.range() == (9, 9) and world.numbered() == before


def test_the_whole_sequence_takes_its_compressed_rows_with_it():
    world = NewestWorld("dsv4", n_seq=2)
    world.go(0, n=12)
    world.go(1, n=12, base=300)
    kept = world.numbered(1)
    assert world.memory.seq_rm(0, 0) and world.range(0) == (-1, -1)
    assert not any(any(rows) for rows in world.numbered(0, 12).values()) and world.numbered(1) == kept


def test_a_rollback_continues_from_an_earlier_ring_and_hides_rows_by_number():
    world = NewestWorld("dsv4", n_rs_seq=3)
    world.go(n=9)
    world.go(n=3)
    assert world.memory.seq_rm(0, 10) and not world.memory.seq_rm(0, 9), "a rollback waits"
    assert world.range() == (9, 9)
    world.go(n=6)
    cold_run = world.cold(16)
    assert world.numbered() == {layer: cold_run.rows(layer).digest.tolist() for layer in world.numbered()}


def test_a_rollback_to_the_first_token_keeps_rows_that_are_hidden_by_number():
    world = NewestWorld("dsv4", n_rs_seq=8)
    world.go(n=1)
    world.go(n=8)
    before = world.numbered()
    assert world.memory.seq_rm(0, 1) and world.range() == (0, 0) and world.numbered(n=9) == before


def test_a_full_state_replaces_all_compressed_rows():
    world = NewestWorld("dsv4", n_seq=2)
    world.go(0, n=9)
    world.go(1, n=21, base=300)
    world.memory.state_read(1, world.memory.state_write(0, partial=False))
    rows = world.numbered(1, 21)
    assert world.numbered(1) == world.numbered(0)
    assert not any(any(digests[9 // 4:]) for digests in rows.values())


@pytest.mark.parametrize("n", [3, 4, 7, 8])
def test_a_state_has_a_row_for_each_complete_group(n):
    world = NewestWorld("dsv4")
    world.go(n=n)
    blob = world.memory.state_write(0, partial=False)
    lengths = {layer: len(rows.digest) for layer, rows in blob.compressed.items()}
    assert lengths == {index_of(1): n // 4, index_of(2): n // 8}
    assert blob.size == world.memory.state_size(0, False)


def test_a_cleared_memory_has_no_compressed_rows_of_any_sequence():
    world = NewestWorld("dsv4", n_seq=2)
    for seq in (0, 1):
        world.go(seq, n=8)
    world.memory.clear()
    assert not any(any(rows) for seq in (0, 1) for rows in world.numbered(seq, 8).values())


def test_a_rollback_reaches_as_far_as_its_planes():
    world = NewestWorld("dsv4", n_rs_seq=2)
    world.go(n=9)
    world.go(n=3)
    assert not world.memory.seq_rm(0, 9) and world.memory.seq_rm(0, 10)


def test_a_checkpoint_brings_back_window_and_rings_and_leaves_compressed_rows():
    world = NewestWorld("dsv4")
    world.go(n=10)
    checkpoint = world.memory.state_write(0, partial=True)
    world.go(n=14)
    rows = world.numbered()
    world.memory.state_read(0, checkpoint)
    assert world.memory.seq_rm(0, 10) and world.range() == (9, 9) and world.numbered(n=24) == rows
    world.go(n=4)
    assert world.numbered() == {layer: world.cold(14).rows(layer).digest.tolist() for layer in rows}


def test_a_copy_has_the_rows_after_the_next_update():
    world = NewestWorld("dsv4", n_seq=2)
    world.go(0, n=12)
    world.memory.seq_cp(0, 1)
    assert world.range(1) == (11, 11) and world.numbered(1, 12) != world.numbered(0)
    world.memory.init_update()
    assert world.numbered(1) == world.numbered(0)
    for _ in range(2):
        world.go(1, n=4)
    assert world.numbered(1) == {layer: world.cold(20).rows(layer).digest.tolist() for layer in world.numbered(1)}
    assert world.numbered(0, 12) == {layer: world.cold(12).rows(layer).digest.tolist() for layer in world.numbered(0)}


@pytest.mark.parametrize("waits", [True, False])
def test_a_delayed_copy_overwrites_a_load_unless_it_is_done_at_once(waits):
    world = NewestWorld("dsv4", BuildTraits(copy_waits=waits), n_seq=2)
    world.go(1, n=12, base=300)
    blob = world.memory.state_write(1, False)
    loaded = world.numbered(1)
    world.go(0, n=12)
    world.memory.seq_rm(1, 0)
    world.memory.seq_cp(0, 1)
    assert (world.numbered(1) == world.numbered(0)) is not waits
    world.memory.seq_rm(1, 0)
    world.memory.state_read(1, blob)
    world.memory.init_update()
    assert world.numbered(1, 12) == (world.numbered(0) if waits else loaded)


def test_all_others_are_emptied():
    world = NewestWorld("dsv4", n_seq=3)
    for seq in range(3):
        world.go(seq, n=8)
    world.memory.seq_keep(1)
    assert [world.range(seq)[1] for seq in range(3)] == [-1, 7, -1]
    world.memory.clear()
    assert world.range(1) == (-1, -1) and not any(any(rows) for rows in world.numbered(1, 8).values())


# --- sizes -------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("model", "n", "full", "partial"), [
    ("deepseek32", 100, 8 + 16 + 36 + 100 * (12 + 576) + 8 + 16 + 36 + 100 * (12 + 768), None),
    ("minimax-m3", 10, 8 + 16 + 96 + 10 * (12 + 1024) + 8 + 16 + 72 + 10 * (12 + 384), None),
    ("qwen4exp", 10, 8 + 16 + 48 + 10 * (24 + 512) + 17484 + 8 + 16 + 24 + 10 * (24 + 256), 17484),
    ("deepseek4", 31, 80024, None),
    ("deepseek4", 32, 81328, 74568),
    ("deepseek4", 500, None, 74568),
])  # fmt: skip
def test_a_saved_state_has_the_recorded_bytes(model, n, full, partial):
    kind = replace(model_kind(model), form=FORM)
    memory = create_memory(kind, Sizes(1, False, 1024, 64, False), None, lambda pos, last, window: last - pos < window,
                           lambda *of: False, lambda event: None)  # fmt: skip
    batch = DecodeBatch()
    for pos in range(n):
        batch.add(pos, pos, 0, False)
    assert Context(memory, None, 2048, 64, lambda event: None).decode(batch) == 0
    if full is not None:
        assert memory.state_size(0, False) == full
    if partial is not None:
        assert memory.state_size(0, True) == partial


def test_the_shape_of_a_model_without_compressed_rows_still_has_its_headers():
    shape = dsv4_shape([0, 0], Widths(32, 64, 128, 256))
    assert (shape.size(100, True), shape.size(100, False)) == (12 + 3 * 24, 12 + 3 * 24 + 3 * 16)
    assert [one.cells(1024) for one in dsv4_shape([4, 128]).rows] == [256, 256, 256]
    assert [one.cells(8192) for one in dsv4_shape([4, 128]).rows] == [2048, 256, 2048]


@pytest.mark.parametrize(("declared", "number", "types", "size"), [
    (256, 4, ("f16", "f16"), 256), (256, 4, ("q8_0", "f32"), 34 + 128), (256, 2, ("q8_0", "q4_0"), 2 * 34 + 2 * 18),
    (192, 4, ("bf16",), 192), (10, 4, ("f16",), 10), (11, 4, ("f16", "f32"), 11), (261, 4, ("q8_0", "f32"), 34 + 131),
])  # fmt: skip
def test_quantized_rows_have_the_bytes_of_their_blocks(declared, number, types, size):
    assert stored_bytes(declared, number, types) == size


def test_a_window_of_dsv4_is_sized_for_one_sequence():
    kind = model_kind("deepseek4")
    assert window_cells(kind, Sizes(4, False, 4096, 512, False)) == 768


def test_a_piece_of_a_micro_batch_has_the_compressed_rows_of_its_sequence():
    runs = tuple(TokenRun(seq, 0, [seq] * 4) for seq in range(3))
    tables = [{}, {1: None}, {2: None}]
    piece = CompressedUbatchStore(Ubatch(runs, (0, 4, 8), 12), {}, {}, None, tables).piece(1, 2, 4)
    assert piece.compressed == [{1: None}] and piece.ubatch == Ubatch((TokenRun(1, 2, [1, 1]),), (0,), 2)


def test_layers_are_counted_by_their_ratio():
    """Ratios 4 and 128 always, then others; index rows and their ring belong to ratio 4."""
    shape = dsv4_shape([4, 4, 4, 128, 0, 0, 8])
    assert [(one.layers, one.ratio) for one in shape.rows] == [(3, 4), (1, 128), (1, 8), (3, 4)]
    assert [(ring.layers, ring.places, ring.width) for ring in shape.rings] == [
        (3, 8, 64), (1, 128, 32), (1, 8, 32), (3, 8, 128)]  # fmt: skip
