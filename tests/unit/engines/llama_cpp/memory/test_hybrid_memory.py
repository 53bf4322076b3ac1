"""Memory of each model class: pos_min and pos_max, removals, contents of a state."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.base.errors import BadInput, Crash
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory, Sizes, pad, window_cells
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.memory.saved_state import StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import BuildTraits, DecodeBatch
from cachesim.events import SeqRm
from tests.unit.engines.llama_cpp.memory.helpers import KINDS, World, held
from tests.unit.engines.llama_cpp.memory.test_newest_memories import NewestWorld

ALL = sorted(KINDS)


@pytest.mark.parametrize("kind", ALL)
def test_the_class_follows_from_the_layers(kind):
    assert World(kind).kind.kind == kind


@pytest.mark.parametrize("name, kind", [
    ("llama", "A"), ("gemma3", "W"), ("mamba2", "R"), ("qwen35", "H"), ("qwen35mtp", "H"), ("lfm2", "H"),
    ("lfm2swa", "HW"), ("falconh1", "H"), ("granitehybrid", "H"),
])
def test_the_recorded_models_have_their_classes(name, kind):
    assert model_kind(name).kind == kind


@pytest.mark.parametrize("name, mrope", [("GGGA", False), ("qwen35-GGGA", True), ("qwen35-GGGA+M", True)])
def test_an_architecture_before_the_layers_has_its_positions(name, mrope):
    kind = model_kind(name)
    assert (kind.name, kind.mrope, kind.spec) == (name, mrope, model_kind(name.removeprefix("qwen35-")).spec)


def test_an_unknown_architecture_is_refused():
    with pytest.raises(BadInput, match="column 1 is not a layer"):
        model_kind("qwen36-GGGA")


def test_an_unknown_model_names_the_nearest():
    with pytest.raises(BadInput, match="gemma3"):
        model_kind("gema3")


# (class, (pos_min, pos_max) after 20 tokens into an empty memory whose window ring is never short)
@pytest.mark.parametrize(
    "kind, span", [("A", (0, 19)), ("W", (0, 19)), ("R", (19, 19)), ("H", (19, 19)), ("HW", (19, 19))]
)
def test_span_of_a_fresh_sequence(kind, span):
    world = World(kind)
    assert world.range() == (-1, -1)
    world.go(n=20)
    assert world.range() == span


def test_a_pair_answers_with_its_window():
    world = World("W", n_ctx_seq=512)
    for _ in range(75):
        world.go(n=4)
    assert len(held(world.memory.parts["base"])) == 300
    low = world.memory.pos_min(0)
    assert low > 0
    assert held(world.memory.parts["swa"]) == list(range(low, 300))


@pytest.mark.parametrize("kind, ok", [("A", True), ("W", True), ("R", False), ("H", False), ("HW", False)])
def test_a_refused_removal_changes_no_part(kind, ok):
    world = World(kind)
    world.go(n=10)
    assert world.memory.seq_rm(0, 5) is ok
    left = 5 if ok else 10
    assert all(held(part) == list(range(left)) for part in world.memory.parts.values())
    assert world.memory.pos_max(0) == left - 1
    assert world.events[-1] == SeqRm(0, 5, 2**31 - 1, ok)
    world.memory.check()


@pytest.mark.parametrize("kind", ALL)
def test_removing_everything_empties_every_part(kind):
    world = World(kind)
    world.go(n=10)
    assert world.memory.seq_rm(0, 0) is True
    assert world.range() == (-1, -1)
    world.go(n=3)
    assert world.memory.pos_max(0) == 2


# class -> positions of base, of the window, of the state in a full and in a partial state after 20 tokens, window 8
CONTENTS = {
    "A": ((20, None, None), (20, None, None)),
    "W": ((20, 8, None), (None, 8, None)),
    "R": ((None, None, 19), (None, None, 19)),
    "H": ((20, None, 19), (None, None, 19)),
    "HW": ((20, 8, 19), (None, 8, 19)),
}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("partial", [False, True])
def test_contents_of_a_state(kind, partial):
    world = World(kind)
    world.go(n=20)
    blob = world.memory.state_write(0, partial)
    base, swa = (None if part is None else len(part.pos) for part in (blob.base, blob.swa))
    assert (base, swa, None if blob.recr is None else blob.recr.pos) == CONTENTS[kind][partial]
    assert blob.size == world.memory.state_size(0, partial)


@pytest.mark.parametrize("kind", ALL)
def test_a_full_state_brings_the_sequence_back(kind):
    world = World(kind)
    world.go(n=20)
    blob = world.memory.state_write(0, partial=False)
    world.memory.seq_rm(0, 0)
    world.go(n=5, base=700)
    world.memory.state_read(0, blob)
    world.memory.check()
    again = world.memory.state_write(0, partial=False)
    assert world.memory.pos_max(0) == 19
    for was, now in ((blob.base, again.base), (blob.swa, again.swa)):
        if was is None:
            continue
        a, b = np.argsort(was.pos), np.argsort(now.pos)
        assert np.array_equal(was.pos[a], now.pos[b])
        assert all(np.array_equal(was.rows[k].digest[a], now.rows[k].digest[b]) for k in was.rows)
    if blob.recr is not None:
        assert {k: s.hash for k, s in again.recr.rows.items()} == {k: s.hash for k, s in blob.recr.rows.items()}


def test_a_partial_state_of_a_hybrid_leaves_newer_attention_cells_until_they_are_cut():
    world = World("H")
    world.go(n=8)
    blob = world.memory.state_write(0, partial=True)
    world.go(n=6)
    world.memory.state_read(0, blob)
    assert held(world.memory.parts["base"]) == list(range(14))
    assert world.range() == (7, 7)                               # max(0, 7), min(13, 7)
    assert world.memory.seq_rm(0, 8) is True                     # after the state: attention only
    assert held(world.memory.parts["base"]) == list(range(8))


def test_a_state_that_finds_no_room_in_attention_leaves_that_part_empty():
    world = World("H", n_seq=2, unified=True, n_ctx_seq=24)
    world.go(0, n=14)
    blob = world.memory.state_write(0, partial=False)
    world.memory.seq_rm(0, 0)
    world.go(1, n=12)
    with pytest.raises(StateReadError):
        world.memory.state_read(0, blob)
    assert (world.range(0), world.memory.pos_max(1)) == ((-1, -1), 11)


@pytest.mark.parametrize("n, padded", [(0, 0), (1, 256), (256, 256), (257, 512), (1000, 1024)])
def test_padding(n, padded):
    assert pad(n) == padded


# n_seq, unified, n_ctx_seq, n_ubatch, swa_full -> cells of a 32-token window
@pytest.mark.parametrize("n_seq, unified, n_ctx_seq, n_ubatch, swa_full, cells", [
    (1, False, 2048, 16, False, 256),
    (1, False, 2048, 224, False, 256),          # 32 + 224 fits
    (1, False, 2048, 225, False, 512),          # the micro-batch counts
    (1, False, 2048, 512, False, 768),
    (1, False, 256, 512, False, 256),           # never more than the context
    (2, True, 2048, 192, False, 256),
    (2, True, 2048, 193, False, 512),           # unified: every sequence has its window
    (2, False, 2048, 193, False, 256),
    (3, True, 2048, 200, False, 512),
    (1, False, 2048, 16, True, 2048),
])
def test_cells_of_the_window_buffer(n_seq, unified, n_ctx_seq, n_ubatch, swa_full, cells):
    assert window_cells(model_kind("gemma3"), Sizes(n_seq, unified, n_ctx_seq, n_ubatch, swa_full)) == cells


@pytest.mark.parametrize("kind, mrope, swa_full, can", [
    ("llama", False, False, True), ("qwen35", True, False, False), ("gemma3", False, False, False),
    ("gemma3", False, True, True), ("mamba2", False, False, True),
])
def test_positions_that_can_be_shifted(kind, mrope, swa_full, can):
    world = World(kind, n_ctx_seq=1024, swa_full=swa_full)
    assert world.kind.mrope is mrope
    assert world.memory.can_shift() is can


def test_a_small_context_makes_both_caches_of_a_pair_equal_and_shiftable():
    assert World("gemma3", n_ctx_seq=256).memory.can_shift() is True


@pytest.mark.parametrize("unified, sizes", [(True, [4, 1]), (False, [2, 3])])
def test_one_stream_is_cut_simply_and_two_equally(unified, sizes):
    world, batch = World("A", n_seq=2, unified=unified), DecodeBatch()
    for seq, pos in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0)):
        batch.add(5, pos, seq, False)
    assert [placed.ubatch.n for placed in world.memory.init_batch(batch, 4)] == sizes


def test_check_finds_parts_that_end_differently():
    world = World("W", n_seq=2)
    world.go(1, n=6)
    world.memory.parts["base"].seq_rm(1, 4, 99)
    with pytest.raises(Crash, match=r"base and window cache end at different positions \[3, 5\]"):
        world.memory.check()


@pytest.mark.parametrize(("part", "span"), [("base", (0, 5)), ("swa", (-1, -1))])
def test_a_part_may_lack_a_sequence(part, span):
    """As after a state whose second part found no room. The window cache decides where the sequence is."""
    world = World("W")
    world.go(n=6)
    world.memory.parts[part].seq_rm(0, 0, 99)
    world.memory.check()
    assert world.range() == span


def test_rows_of_a_copy_between_streams_come_with_the_next_decode():
    """Until then the target's cells keep old rows; rows loaded into it in between are lost."""
    world = World("A", n_seq=2)
    world.go(0, n=4)
    saved = world.memory.state_write(0, partial=False)
    world.go(1, n=4, base=200)

    def digests(seq):
        return world.memory.parts["base"].rows[seq][0].digest[:4].tolist()

    mine, theirs = digests(0), digests(1)
    world.memory.seq_cp(1, 0)
    assert digests(0) == mine != theirs
    world.memory.state_read(0, saved)
    world.go(1, base=200)
    assert digests(0) == theirs


@pytest.mark.parametrize("unified", [True, False])
def test_sequences_whose_rows_the_next_decode_moves_or_copies_are_pending(unified):
    world = World("A", n_seq=3, unified=unified)
    world.go(0, n=4)
    world.go(1, n=4, base=200)
    assert [*world.memory.pending()] == []
    world.memory.seq_rm(1, 1, 2)
    world.memory.seq_add(1, 2, 4, -1)
    assert [*world.memory.pending()] == [(1, 1)]
    world.memory.seq_cp(1, 2)
    assert {*world.memory.pending()} == {(1, 1), (2, 1)} | (set() if unified else {(2, 0)})
    world.go(0, base=300)
    assert [*world.memory.pending()] == []


@pytest.mark.parametrize(("forgets", "full", "n_swa"), [(True, True, 8), (True, False, 8), (False, True, 0),
                                                        (False, False, 8)])  # fmt: skip
def test_a_window_cache_of_full_size_may_keep_every_cell(forgets, full, n_swa):
    made = Memory(model_kind("W8 A"), Sizes(1, True, 64, 4, full), None, keep=lambda *of: None,
                  refuses=lambda *of: False, emit=lambda event: None,
                  traits=BuildTraits(full_forgets=forgets))  # fmt: skip
    assert (made.parts["swa"].n_swa, made.parts["base"].n_swa) == (n_swa, 0)
    assert (made.parts["swa"].masked is None) is (n_swa == 0)


@pytest.mark.parametrize(("traits", "full", "swa"), [
    (BuildTraits(mask_model=True), False, 8), (BuildTraits(full_forgets=False), True, None), (BuildTraits(), True, 8),
])  # fmt: skip
def test_a_partial_state_has_a_window_cache_that_forgets_and_no_full_attention(traits, full, swa):
    world = NewestWorld("W8 A", traits, swa_full=full)
    world.go(n=20)
    blob = world.memory.state_write(0, partial=True)
    assert blob.base is None and (blob.swa and len(blob.swa.pos)) == swa


@pytest.mark.parametrize(("masks", "n_swa"), [(True, 8), (False, 0)])
def test_the_full_attention_cache_may_reuse_cells_outside_the_window(masks, n_swa):
    made = Memory(model_kind("W8 A"), Sizes(1, True, 64, 4, False), None, keep=lambda *of: None,
                  refuses=lambda *of: False, emit=print, traits=BuildTraits(mask_model=masks))  # fmt: skip
    assert (made.parts["base"].n_swa, made.parts["swa"].n_swa) == (n_swa, 8)


@pytest.mark.parametrize(("model", "n_seq", "unified", "inputs"), [
    ("SS", 2, False, (3, False, False)), ("GA", 2, False, (3, True, False)), ("GA", 2, True, (3, True, True)),
    ("SS", 1, False, (3, False, True)),
])  # fmt: skip
def test_the_split_of_a_build_is_chosen_by_planes_attention_and_buffer(model, n_seq, unified, inputs):
    asked = []
    Memory(model_kind(model), Sizes(n_seq, unified, 64, 4, False, 3), None, keep=lambda *of: None,
           refuses=lambda *of: False, emit=print, traits=BuildTraits(split=lambda *of: asked.append(of)))  # fmt: skip
    assert asked == [inputs]
