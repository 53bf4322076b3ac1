"""Layout of models: kinds, declared sizes, draft models, and names that are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory.model_layout import draft_kind, model_kind
from cachesim.engines.llama_cpp.memory.newest_layout import CompressedShape, RingShape, dsv4_shape, memory_class
from cachesim.engines.llama_cpp.memory.saved_state import AttentionShape, RecurrentShape, StateNumbers
from cachesim.engines.llama_cpp.memory.torn_state import StateEnd, torn_at
from cachesim.engines.shared.size_formulas import HEAD
from cachesim.model import parse
from tests.unit.engines.llama_cpp.memory.helpers import World


@pytest.mark.parametrize(("name", "kind", "n_swa", "base", "swa", "recr", "idx"), [
    ("AA", "A", 0, (0, 1), (), (), ()), ("W8 A", "W", 8, (1,), (0,), (), ()), ("W8 W4", "W", 8, (), (0, 1), (), ()),
    ("SS", "R", 0, (), (), (0, 1), ()), ("GA", "H", 0, (1,), (), (0,), ()), ("HH", "H", 0, (0, 1), (), (0, 1), ()),
    ("C W8", "HW", 8, (), (1,), (0,), ()), ("I8 I8", "dsa", 0, (0, 1), (), (), (0, 1)),
    ("W8 I8", "dsa_iswa", 8, (1,), (0,), (), (1,)), ("A B2", "msa", 0, (0, 1), (), (), (1,)),
    ("G P8", "hybrid_idx", 0, (1,), (), (0,), (1,)),
])  # fmt: skip
def test_the_parts_of_a_model(name, kind, n_swa, base, swa, recr, idx):
    found = model_kind(name)
    assert (found.kind, found.n_swa, found.base, found.swa) == (kind, n_swa, base, swa)
    assert (found.recr, found.idx) == (recr, idx)
    assert found.saves_all is (kind in ("A", "dsa", "msa"))


def test_compressed_rows_are_windows_with_rings():
    found = model_kind("W8 D4.8.3 D8.8")
    assert (found.kind, found.n_swa, found.swa, found.recr) == ("dsv4", 8, (0, 1, 2), (1, 2))
    assert found.dsv4_shape() == dsv4_shape([0, 4, 8])


@pytest.mark.parametrize(("name", "part", "shape"), [
    ("llama", "base", AttentionShape(4, 256)), ("gemma3", "swa", AttentionShape(2, 256)),
    ("qwen2vl", "base", AttentionShape(4, 256, True)), ("deepseek32", "base", AttentionShape(3, 192, tensors=1)),
    ("deepseek32", "idx", AttentionShape(3, 256, tensors=1)), ("minimax-m3", "idx", AttentionShape(3, 128)),
    ("W8 A@100/0/64/16", "swa", AttentionShape(1, 16)), ("W8 A@100/0/64/16", "base", AttentionShape(1, 100)),
])  # fmt: skip
def test_declared_rows(name, part, shape):
    assert model_kind(name).attention_shape(part) == shape


def test_quantized_rows_have_the_bytes_of_their_types():
    kind = replace(model_kind("llama"), types=("q8_0", "f16"))
    assert kind.attention_shape("base").row_bytes == 32 // 32 * 34 + 128
    assert kind.row_bytes == 256 and replace(kind, own_row=0).row_bytes == 0
    assert replace(kind, own_row=0).attention_shape("base").row_bytes == 0
    assert replace(kind, own_row=512, types=("q4_0", "q4_0")).attention_shape("base").row_bytes == 2 * 128 // 32 * 18
    single = replace(model_kind("deepseek32"), types=("q8_0", "f16"))         # a tensor of 48 numbers
    assert single.attention_shape("base").row_bytes == 48 // 32 * 34
    index = replace(model_kind("I8 I8"), own_row=100)
    assert (index.attention_shape("idx").row_bytes, index.attention_shape("base").row_bytes) == (0, 100)


@pytest.mark.parametrize(("name", "shape"), [
    ("qwen35", RecurrentShape(6, 6 * 5632)), ("mamba2", RecurrentShape(4, 4 * 18688)),
    ("lfm2", RecurrentShape(4, 4 * 512)), ("llama", RecurrentShape(0, 0)),
    ("qwen4exp", RecurrentShape(2, 2 * 5632 + 6144, 1)),
])  # fmt: skip
def test_declared_states(name, shape):
    assert model_kind(name).recr_shape() == shape
    assert replace(model_kind(name), history_bytes=1).recr_shape().histories == 1


def test_an_mtp_head_is_an_attention_layer_with_half_the_bytes():
    target = replace(model_kind("qwen35mtp"), form=StateNumbers(12, 16))
    head = draft_kind(target, "draft-mtp", "")
    assert (head.name, head.spec, head.mrope, head.own_row, head.form) == (
        "qwen35mtp+mtp", parse("A"), True, 128, StateNumbers(12, 16))  # fmt: skip
    model = draft_kind(target, "draft-simple", "gemma3")
    assert (model.name, model.kind, model.mrope, model.own_row, model.form) == (
        "gemma3", "W", False, 128, StateNumbers(12, 16))  # fmt: skip
    assert draft_kind(target, "draft-mtp", "", head_bits=0).own_row == target.own_row
    assert draft_kind(target, "none", "gemma3") is None and draft_kind(target, "ngram-mod", "") is None


@pytest.mark.parametrize(("name", "head", "history"), [
    ("deepseek32", 48, 0), ("deepseek4", 32, 0), ("llama", 16, 0), ("qwen4exp", 16, 6144), ("AA", 0, 0),
])  # fmt: skip
def test_heads_and_histories_of_recorded_models(name, head, history):
    assert (model_kind(name).head, model_kind(name).history_bytes) == (head, history)


@pytest.mark.parametrize(("name", "row", "state", "head"), [
    ("GGGA@24576/26345472", 24576, 26345472, HEAD), ("qwen35@100/200/64", 100, 200, 64),
])  # fmt: skip
def test_a_name_declares_sizes(name, row, state, head):
    found = model_kind(name)
    assert (found.name, found.own_row, found.state_bytes, found.head) == (name, row, state, head)
    plain = model_kind(name.partition("@")[0])
    assert (found.spec, found.mrope, found.recr) == (plain.spec, plain.mrope, plain.recr)


@pytest.mark.parametrize("name", ["", "AQ", "qwen35-", "llama-AA"])
def test_a_name_of_no_model_is_refused(name):
    with pytest.raises(BadInput):
        model_kind(name)


@pytest.mark.parametrize(("layers", "name"), [
    ("D4.8.3 P8 B2 I8 W8", "dsv4"), ("P8 B2 I8", "hybrid_idx"), ("B2 I8 W8", "msa"), ("I8 W8", "dsa_iswa"),
    ("I8 A", "dsa"), ("W8 A", ""),
])  # fmt: skip
def test_the_class_of_a_memory_follows_from_the_rarest_layer(layers, name):
    assert memory_class([layer for text in layers.split() for layer in parse(text).layers]) == name


def test_shapes_of_compressed_rows_and_rings():
    rows, ring = CompressedShape(2, 4, 100), RingShape(3, 8, 64)
    assert [rows.size(n) for n in (0, 3, 4, 9)] == [16 + 64, 16 + 64, 16 + 2 * 132, 16 + 2 * 232]
    assert [rows.cells(n) for n in (1, 1024, 1025, 1028, 8192)] == [256, 256, 512, 512, 2048]
    assert (ring.bytes, ring.size) == (3 * 2 * 8 * 64 * 4, 24 + 3 * 60 + 12288)
    shape = dsv4_shape([0, 4, 4, 128, 16])
    assert shape.rows == (CompressedShape(2, 4, 128), CompressedShape(1, 128, 128), CompressedShape(1, 16, 128),
                          CompressedShape(2, 4, 256))  # fmt: skip
    assert shape.rings == (RingShape(2, 8, 64), RingShape(1, 128, 32), RingShape(1, 16, 32), RingShape(2, 8, 128))


@pytest.mark.parametrize(("n", "streams", "size"), [(0, 1, 8), (0, 2, 12), (3, 1, 8 + 3 * 24 + 16 + 2 * (24 + 300))])
def test_an_attention_part_with_extended_cells(n, streams, size):
    shape = AttentionShape(2, 100, True, StateNumbers(12, 16))
    assert shape.size(n, streams) == size and shape.rows_size(n) == (16 + 2 * (24 + 300) if n else 0)


def test_a_recurrent_part_with_a_history():
    shape = RecurrentShape(2, 100, 1)
    assert (shape.headers, shape.size(True), shape.size(False), shape.rows_size(True), shape.rows_size(False)) == (
        56, 12 + 56 + 108, 12 + 56, 8 + 56 + 100, 8 + 56)  # fmt: skip


def test_a_state_of_one_token_has_its_rows():
    world = World("R")
    world.go(n=1)
    blob = world.memory.state_write(0, partial=False)
    assert blob.recr.pos == 0 and torn_at(world.memory, blob, blob.size - 1) == StateEnd("recr", True, True)
