"""Formulas of the sizes of layers: each layer was counted by hand from its numbers."""

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.shared.size_formulas import (
    DeclaredSizes,
    LayerSize,
    ModelSizes,
    attention,
    delta_net,
    kimi_delta,
    mamba,
    name_with_sizes,
    short_conv,
    split_sizes,
    states_bytes,
)
from cachesim.model import parse


@pytest.mark.parametrize(("layer", "fields", "row", "state"), [
    (attention(2, 16, 16), {"kind": "A", "key": 32, "value": 32, "kv_heads": 2}, 128, 0),
    (attention(3, 8, 4, "W"), {"kind": "W", "key": 24, "value": 12, "kv_heads": 3}, 72, 0),
    (attention(1, 576, 0), {"kind": "A", "key": 576, "kv_heads": 1}, 1152, 0),
    (delta_net(4, 2, 3, 5, 7), {"kind": "G", "conv": 3 * (2 * 2 * 5 + 3 * 7), "matrix": 105, "inputs": 3}, 0, 912),
    (delta_net(0, 2, 3, 5, 7), {"kind": "G", "matrix": 105}, 0, 420),
    (kimi_delta(4, 2, 5), {"kind": "G", "conv": 3 * 3 * 10, "matrix": 50, "inputs": 3}, 0, 560),
    (kimi_delta(1, 2, 5), {"kind": "G", "matrix": 50}, 0, 200), (kimi_delta(0, 1, 1), {"kind": "G", "matrix": 1}, 0, 4),
    (mamba(4, 6, 5, 2), {"kind": "S", "conv": 3 * (6 + 20), "matrix": 30, "inputs": 3, "groups": 2, "width": 5}, 0,
     432),
    (mamba(0, 6, 5, 1), {"kind": "S", "matrix": 30, "groups": 1, "width": 5}, 0, 120),
    (short_conv(3, 64), {"kind": "C", "conv": 128, "inputs": 2}, 0, 512), (short_conv(0, 64), {"kind": "C"}, 0, 0),
])  # fmt: skip
def test_a_layer_keeps_the_numbers_that_follow_from_its_widths(layer, fields, row, state):
    assert layer == LayerSize(**fields) and (layer.row, layer.state, layer.index_row) == (row, state, 0)


def test_index_rows_of_compressed_rows_are_not_those_of_tokens():
    layer = LayerSize("I", 8, 0, index_key=5, index_value=3)
    assert (layer.index_row, layer._replace(ratio=4).index_row, LayerSize("").index_row) == (16, 0, 0)


@pytest.mark.parametrize(("name", "parts"), [
    ("GGGA", ("GGGA", None)), ("A@12/0", ("A", DeclaredSizes(12, 0, 16))),
    ("W32 A@24576/5/64", ("W32 A", DeclaredSizes(24576, 5, 64))),
    ("A@999999999999999/999999999999999/9999", ("A", DeclaredSizes(999999999999999, 999999999999999, 9999))),
])  # fmt: skip
def test_a_name_may_declare_sizes(name, parts):
    assert split_sizes(name) == parts
    if parts[1]:
        assert name_with_sizes(*parts) == name


@pytest.mark.parametrize("name", ["A@", "A@12", "A@12/", "A@/5", "A@1234567890123456/0", "A@1/2/12345", "A@1/2/",
                                  "A@1/2/3/4/5", "A@1/2//4", "A@x/2", "A@ 1/2"])  # fmt: skip
def test_a_name_with_other_words_after_its_mark_is_refused(name):
    with pytest.raises(BadInput, match=f"^model '{name}': expected two sizes in bytes after '@'") as bad:
        split_sizes(name)
    assert bad.value.hint == "for example GGGA@24576/26345472"


def test_only_another_width_of_a_head_is_written():
    assert name_with_sizes("A", DeclaredSizes(3, 4)) == "A@3/4"
    assert name_with_sizes("A", DeclaredSizes(3, 4, 16)) == "A@3/4" != name_with_sizes("A", DeclaredSizes(3, 4, 17))


REAL = ModelSizes("GGGA", full=24576, window=0, state_bytes=36000, source="a file", head=256)
WINDOWS = ModelSizes("W8 A", full=3000, window=8000, state_bytes=0, source="a file", head=64)


@pytest.mark.parametrize(("sizes", "model", "scale", "name"), [
    (REAL, "GGGA", 1, "GGGA@24576/12000"), (REAL, "GGGA", 64, "GGGA@1572864/12000"), (REAL, "GA", 1, "GA@24576/36000"),
    (REAL, "AA", 1, "AA@12288/0"), (REAL, "G", 3, "G@0/36000"), (REAL, "H", 1, "H@24576/36000"),
    (REAL, "moe-GA", 1, "moe-GA@24576/36000"), (REAL, "W8 A", 1, "W8 A@12288/0/256"),
    (REAL, "W8 A", 2, "W8 A@24576/0"), (REAL._replace(full=7), "AA", 1, "AA@3/0"),
    (WINDOWS, "W8 W8 A", 1, "W8 W8 A@3000/0/64/4000"), (WINDOWS, "W8 W8 A", 2, "W8 W8 A@6000/0/16/8000"),
    (WINDOWS, "AA", 1, "AA@5500/0"), (WINDOWS._replace(window=6000), "W8 W8 A", 1, "W8 W8 A@3000/0/64"),
])  # fmt: skip
def test_a_small_model_has_the_sum_of_the_sizes(sizes, model, scale, name):
    assert sizes.declared(model, scale) == name


def test_the_sizes_of_a_model_are_those_of_its_layers():
    assert (REAL.token_bytes, REAL.state_bytes) == (24576, 36000)
    assert (WINDOWS.token_bytes, ModelSizes("A", 4, 0, 0, "").head) == (11000, 16)


def test_states_are_as_large_as_declared_or_recorded_or_simulated():
    spec = parse("GCAH")
    assert states_bytes(spec, {"G": 10, "C": 20, "H": 40, "A": 80}, 0) == 70
    assert states_bytes(spec, {"G": 10}, 7) == 21
    assert states_bytes(parse("AA"), {"A": 5}, 9) == 0
