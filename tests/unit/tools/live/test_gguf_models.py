"""Tests of tiny GGUFs: architectures, sizes and bytes."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.memory.model_layout import KV_ROW, RECORDED, STATE_ROW, model_kind
from cachesim.tools.live.llama_server import gguf_tensors
from cachesim.tools.live.llama_server.gguf_models import (
    check_build,
    find_model,
    special,
    tiny_model,
    vocabulary,
    write_model,
)
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, tensor_values
from tests.shared import MODELS, needs

ARCHITECTURES = {
    "A": "llama", "AA": "llama", "AAAA": "llama",
    "W8 A": "gemma3", "W8 W8": "gemma3", "W32 A W32 A": "gemma3", "W8 A A": "gemma3",
    "GA": "qwen3next", "GGGA": "qwen3next", "GGGAGGGA": "qwen3next", "AG": "qwen3next",
    "qwen35-GGGA": "qwen35", "GA+M": "qwen35", "GGGA+M": "qwen35",
    "S": "mamba2", "SS": "mamba2", "SSASSA": "granitehybrid", "AS": "granitehybrid",
    "qwen2vl": "qwen2vl", "CA": "lfm2", "CCACAC": "lfm2", "C W8": "lfm2", "H": "falcon-h1", "HH": "falcon-h1",
}  # fmt: skip
needs_gguf = pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed (extra gguf)")


@pytest.mark.parametrize("notation, arch", ARCHITECTURES.items())
def test_architecture_of_a_notation(notation, arch):
    assert find_model(notation).arch == arch


@pytest.mark.parametrize("notation", ARCHITECTURES)
def test_a_file_name_leads_back_to_the_layers(notation):
    model = find_model(notation)
    again = model_kind(model.file.removeprefix("tiny-").removesuffix(".gguf"))
    assert (again.spec, again.mrope) == (model_kind(notation).spec, model.arch in ("qwen35", "qwen2vl"))
    assert find_model(model.name) == model


@pytest.mark.parametrize("notation, why", [
    ("G W8", "windows need A or C alone"), ("HA", "H must stand alone"), ("C W8 A", "no architecture"),
    ("CC", "add an A"), ("GG", "add an A"), ("W8 W9", "must have one width"), ("A+M", "MTP heads"),
    ("S+M", "MTP heads"), ("qwen35-AA", "both G and A"), ("GSA", "no architecture"), ("X", "layer"),
    ("I48", "no tiny model with index rows can be written here: 'I48'"), ("G P48", "pooled index rows"),
    ("A B4", "chosen blocks"), ("W32 D4.32.12", "compressed rows"),
])
def test_what_no_architecture_has_is_refused(notation, why):
    with pytest.raises(BadInput, match=why):
        find_model(notation)


def elements(notation, layer, *names):
    """Return the number of elements of a layer's tensors by name, in order."""
    shapes = {tensor.name: tensor.shape for tensor in tiny_model(find_model(notation)).tensors()}
    return [shapes[f"blk.{layer}.{name}.weight"] for name in names]


@pytest.mark.parametrize("notation, layer", [("A", 0), ("W8 A", 0), ("CA", 1), ("H", 0), ("GA", 1), ("SA", 1)])
def test_rows_have_the_declared_bytes(notation, layer):
    k, v = elements(notation, layer, "attn_k", "attn_v")
    assert 4 * (k[1] + v[1]) == KV_ROW == model_kind(notation).row_bytes


@pytest.mark.parametrize("notation", ["GA", "qwen35-GA", "S", "SA", "H"])
def test_states_have_the_declared_bytes(notation):
    (taps, conv), (inner, _) = elements(notation, 0, "ssm_conv1d", "ssm_out")
    state = gguf_tensors.HEAD if "G" in notation else gguf_tensors.SSM_STATE
    kind = model_kind(notation).spec.layers[0].kind
    assert 4 * ((taps - 1) * conv + inner * state) == STATE_ROW[kind]


def test_a_short_convolution_has_the_declared_bytes():
    (taps, width), = elements("CA", 0, "shortconv.conv")
    assert 4 * (taps - 1) * width == STATE_ROW["C"]


@pytest.mark.parametrize("notation, key, value", [
    ("W8 W8", "attention.sliding_window_pattern", 0),
    ("W8 A W8 A", "attention.sliding_window_pattern", 2),
    ("W8 W8 A W8", "attention.sliding_window_pattern", 3),
    ("W8 A A", "attention.sliding_window_pattern", [1, 0, 0]),
    ("W8 A", "attention.sliding_window", 8),
    ("C W8", "attention.sliding_window", 8),
    ("GGGA", "full_attention_interval", 4),
    ("AG", "attention.recurrent_layers", [0, 1]),
    ("GAA+M", "attention.recurrent_layers", [1, 0, 0, 0]),
    ("SSA", "attention.head_count_kv", [0, 0, 2]),
    ("C W1", "attention.sliding_window", 1),
    ("qwen2vl", "rope.dimension_sections", [4, 2, 2, 0]),
    ("qwen35-GA", "rope.dimension_sections", [4, 2, 2, 0]),
    ("GA+M", "nextn_predict_layers", 1),
])
def test_the_layers_are_in_the_keys(notation, key, value):
    model = find_model(notation)
    assert special(model.arch, model.spec)[key] == value


def test_values_are_those_of_the_seed_and_the_name():
    tensor = Tensor("blk.0.attn_q.weight", (64, 64), 0.2, 1.0)
    one = np.array(tensor_values(tensor, 0))
    assert one.shape == (64 * 64,)
    assert abs(one.mean() - 1.0) < 0.01 and abs(one.std() - 0.2) < 0.01
    assert not np.array_equal(one, tensor_values(tensor, 1))
    assert not np.array_equal(one, tensor_values(tensor._replace(name="blk.1.attn_q.weight"), 0))


@pytest.mark.long
def test_the_numbers_are_the_same_everywhere():
    digest = hashlib.sha256()
    for notation in ARCHITECTURES:
        for tensor in tiny_model(find_model(notation)).tensors():
            digest.update(tensor.name.encode() + np.array(tensor_values(tensor, 0), "<f4").tobytes())
    assert digest.hexdigest()[:16] == "87b6078964b32440"


@pytest.mark.part(5)
@needs_gguf
@pytest.mark.parametrize("notation", ARCHITECTURES)
def test_a_file_has_the_bytes_that_the_package_gguf_writes(notation, tmp_path):
    from gguf import GGUFWriter

    assert write_model(notation, tmp_path / "ours") == ARCHITECTURES[notation]
    model = tiny_model(find_model(notation))
    out = GGUFWriter(tmp_path / "theirs", model.keys["general.architecture"])
    add = {bool: out.add_bool, int: out.add_uint32, float: out.add_float32, str: out.add_string, list: out.add_array}
    for key, value in list(model.keys.items())[1:]:
        add[type(value)](key, value)
    for tensor in model.tensors():
        out.add_tensor(tensor.name, np.array(tensor_values(tensor, 0), np.float32).reshape(tensor.shape[::-1]))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()


def fields(path):
    from gguf import GGUFReader

    reader = GGUFReader(path)
    return {
        **{name: field.contents() for name, field in reader.fields.items()},
        **{tensor.name: (tensor.tensor_type.name, [int(n) for n in tensor.shape]) for tensor in reader.tensors},
    }


OURS = ("general.name", "general.description", ".context_length")


@pytest.mark.part(5)
@needs_gguf
@needs(MODELS)
@pytest.mark.parametrize(
    "name",
    ["llama", "gemma3", "qwen2vl", "mamba2", "qwen35", "qwen35mtp", "lfm2", "lfm2swa", "falconh1", "granitehybrid"],
)
def test_keys_and_shapes_are_those_of_the_recorded_models(name, tmp_path):
    notation, mrope = RECORDED[name]
    own = name == "qwen2vl"
    write_model(name if own else f"qwen35-{notation}" if mrope else notation, tmp_path / "a")
    ours, theirs = fields(tmp_path / "a"), fields(MODELS / f"tiny-{name}.gguf")
    assert ours.keys() == theirs.keys()
    assert all(key.endswith(OURS) for key, value in ours.items() if value != theirs[key])


@pytest.mark.parametrize(("name", "commit", "refused"), [
    ("tiny-W8AA", "b10809", True), ("tiny-W8AA", "b10566", True), ("tiny-W8AA", "b11063", False),
    ("tiny-W8A", "b10809", False), ("tiny-W8W8A", "b10809", False), ("tiny-W8W8", "b10809", False),
    ("tiny-AA", "b10809", False), ("tiny-gemma3", "b10809", False), ("mine", "b10809", False),
    ("tiny-W8AA", "3f545be", False),
])  # fmt: skip
def test_a_build_that_reads_the_windows_of_another_model_is_refused(name, commit, refused):
    if not refused:
        check_build(Path(f"{name}.gguf"), commit)
        return
    with pytest.raises(BadInput, match=f"{commit} reads the windows of 'W8 A A' as another model's"):
        check_build(Path(f"{name}.gguf"), commit)


def test_the_vocabulary_ends_a_text_and_a_message_with_control_tokens():
    keys = {name.removeprefix("tokenizer."): value for name, value in vocabulary().items()}
    tokens, kinds = keys["ggml.tokens"], keys["ggml.token_type"]
    ends = [tokens[keys[f"ggml.{name}_token_id"]] for name in ("eos", "eot", "padding")]
    assert ends == ["<|endoftext|>", "<|im_end|>", "<|endoftext|>"] and ends[1] in keys["chat_template"]
    control, plain = 3, 1
    assert {tokens[i] for i, kind in enumerate(kinds) if kind == control} == {*ends, "<|im_start|>"}
    assert {kinds[tokens.index(text)] for text in ("Ġ", "a", "Ċ")} == {plain}
    assert len(tokens) == len(kinds) == len(set(tokens))
