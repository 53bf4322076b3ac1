"""Tests of tiny GGUFs: architectures, sizes and bytes."""

from __future__ import annotations

import hashlib
import re
from functools import partial
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
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, Uint64s, tensor_values
from tests.shared import MODELS, needs

ARCHITECTURES = {
    "A": "llama", "AA": "llama", "AAAA": "llama",
    "W8 A": "gemma3", "W8 W8": "gemma3", "W32 A W32 A": "gemma3", "W8 A A": "gemma3",
    "GA": "qwen3next", "GGGA": "qwen3next", "GGGAGGGA": "qwen3next", "AG": "qwen3next",
    "qwen35-GGGA": "qwen35", "GA+M": "qwen35", "GGGA+M": "qwen35",
    "S": "mamba2", "SS": "mamba2", "SSASSA": "granitehybrid", "AS": "granitehybrid",
    "qwen2vl": "qwen2vl", "CA": "lfm2", "CCACAC": "lfm2", "C W8": "lfm2", "H": "falcon-h1", "HH": "falcon-h1",
    "I8": "deepseek32", "I8 I8": "deepseek32", "W8 I8": "dots3note", "W8 D4.8.3 D4.8.3": "deepseek4",
    "qwen35-GGGP8": "qwen4exp",
}  # fmt: skip
needs_gguf = pytest.mark.skipif(find_spec("gguf") is None, reason="the package gguf is not installed (extra gguf)")


@pytest.mark.parametrize("notation, arch", ARCHITECTURES.items())
def test_architecture_of_a_notation(notation, arch):
    assert find_model(notation).arch == arch


@pytest.mark.parametrize("notation", ARCHITECTURES)
def test_a_file_name_leads_back_to_the_layers(notation):
    model = find_model(notation)
    again = model_kind(model.file.removeprefix("tiny-").removesuffix(".gguf"))
    assert (again.spec, again.mrope) == (model_kind(notation).spec, model.arch in ("qwen35", "qwen4exp", "qwen2vl"))
    assert find_model(model.name) == model


@pytest.mark.parametrize("notation, why", [
    ("G W8", "windows need A or C alone"), ("HA", "H must stand alone"), ("C W8 A", "no architecture"),
    ("CC", "add an A"), ("GG", "add an A"), ("W8 W9", "must have one width"), ("A+M", "MTP heads"),
    ("S+M", "MTP heads"), ("qwen35-AA", "both G and A"), ("GSA", "no architecture"), ("X", "layer"),
    ("GGGP8", "qwen35-GGGP8"), ("A B4", "flash attention"), ("W8 D8.8", "4 tokens"),
    ("I8 I48", "same number of rows"), ("AI8", "no architecture"), ("qwen35-GP8+M", "MTP heads"),
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
    assert digest.hexdigest()[:16] == "4484b35eb486266b"


@pytest.mark.part(5)
@needs_gguf
@pytest.mark.parametrize("notation", ARCHITECTURES)
def test_a_file_has_the_bytes_that_the_package_gguf_writes(notation, tmp_path):
    from gguf import GGUFValueType, GGUFWriter

    assert write_model(notation, tmp_path / "ours") == ARCHITECTURES[notation]
    model = tiny_model(find_model(notation))
    out = GGUFWriter(tmp_path / "theirs", model.keys["general.architecture"])
    add = {bool: out.add_bool, int: out.add_uint32, float: out.add_float32, str: out.add_string, list: out.add_array}
    add[Uint64s] = partial(out.add_key_value, vtype=GGUFValueType.ARRAY, sub_type=GGUFValueType.UINT64)
    for key, value in list(model.keys.items())[1:]:
        add[type(value)](key, value.numbers if isinstance(value, Uint64s) else value)
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
    ("tiny-W8AA", "3f545be", False), ("tiny-W8W8W8W8W8A", "b8156", False), ("tiny-W8W8", "b8156", False),
    ("tiny-W8A", "b8237", True), ("tiny-W8A", "b8238", False),
])  # fmt: skip
def test_a_build_that_reads_the_windows_of_another_model_is_refused(name, commit, refused):
    if not refused:
        check_build(Path(f"{name}.gguf"), commit)
        return
    with pytest.raises(BadInput, match=f"{commit} reads the windows of 'W8 A( A)?' as another model's"):
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
    assert kinds == [plain] * 96 + [control] * 3 + [4] * 221


FEED_FORWARD = ["ffn_gate", "ffn_up", "ffn_down"]
ATTENTION = ["attn_q", "attn_k", "attn_v", "attn_output"]
GEMMA_NORMS = ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"]
NORMED = ["attn_q_norm", "attn_k_norm"]


def names(notation, layer):
    """Return the names of a layer's tensors, without `.weight`."""
    head = f"blk.{layer}."
    return [tensor.name.removeprefix(head).removesuffix(".weight")
            for tensor in tiny_model(find_model(notation)).tensors() if tensor.name.startswith(head)]  # fmt: skip


@pytest.mark.parametrize(("notation", "layer", "found"), [
    ("A", 0, ["attn_norm", "ffn_norm", *ATTENTION, *FEED_FORWARD]),
    ("W8 A", 0, [*GEMMA_NORMS, *ATTENTION, *NORMED, *FEED_FORWARD]),
    ("W8 A", 1, [*GEMMA_NORMS, *ATTENTION, *NORMED, *FEED_FORWARD]),
    ("CA", 1, ["attn_norm", "ffn_norm", *ATTENTION, *NORMED, *FEED_FORWARD]),
])  # fmt: skip
def test_a_layer_has_the_tensors_of_its_architecture(notation, layer, found):
    assert names(notation, layer) == found


@pytest.mark.parametrize(("notation", "begins", "ends"), [
    ("S", ["attn_norm", "ssm_in"], ["ssm_out"]), ("SA", ["attn_norm", "ffn_norm", "ssm_in"], FEED_FORWARD),
    ("H", ["attn_norm", "ffn_norm", "ssm_in"], [*ATTENTION, *FEED_FORWARD]),
    ("CA", ["attn_norm", "ffn_norm"], FEED_FORWARD), ("qwen35-GA", ["attn_norm", "post_attention_norm"], FEED_FORWARD),
])  # fmt: skip
def test_a_layer_of_states_begins_with_its_norms(notation, begins, ends):
    found = names(notation, 0)
    assert found[: len(begins)] == begins and found[-len(ends) :] == ends and len(set(found)) == len(found)
    assert ("attn_q" in found) is (notation == "H")


def test_a_head_that_drafts_is_the_last_layer():
    model = tiny_model(find_model("GA+M"))
    assert (model.order, names("GA+M", 2)[:2]) == ("GAM", ["attn_norm", "post_attention_norm"])
    assert tiny_model(find_model("GA")).order == "GA" and names("GA", 2) == []


def test_the_outputs_of_a_model_that_drafts_are_damped():
    for notation, damped in (("GA+M", 0.25 * 0.04), ("qwen35-GA", 0.25)):
        found = {tensor.name: tensor.std for tensor in tiny_model(find_model(notation)).tensors()}
        assert found["blk.1.attn_output.weight"] == pytest.approx(damped)


@pytest.mark.parametrize(("notation", "std", "norm"), [
    ("A", 1.0, "output_norm"), ("W8 A", 0.125, "output_norm"), ("CA", 1.0, "token_embd_norm")])
def test_gemma_has_small_embeddings_and_lfm2_another_norm(notation, std, norm):
    embedding, normed, output = tiny_model(find_model(notation)).outer
    assert (embedding.name, embedding.std, normed.name, output.name) == (
        "token_embd.weight", std, f"{norm}.weight", "output.weight")  # fmt: skip


@pytest.mark.parametrize(("notation", "attends", "layers"), [("A", 1, 1), ("S", 0, 1), ("GA+M", 1, 3)])
def test_the_keys_begin_with_the_name_and_the_sizes(notation, attends, layers):
    model = find_model(notation)
    keys = [*tiny_model(model).keys.items()]
    assert keys[:4] == [
        ("general.architecture", model.arch), ("general.name", f"tiny-{model.name}"),
        ("general.description", "random weights; for tests of cache logic only"), ("general.file_type", 0)]  # fmt: skip
    assert dict(keys[4:16]) == {f"{model.arch}.{name}": value for name, value in {
        "context_length": 131_072, "embedding_length": 64, "block_count": layers, "feed_forward_length": 96 * attends,
        "attention.head_count": 4 * attends, "attention.head_count_kv": 2 * attends,
        "attention.key_length": 16 * attends, "attention.value_length": 16 * attends,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.dimension_count": 16 * attends, "rope.freq_base": 10_000.0,
        "vocab_size": 320}.items()}  # fmt: skip
    assert keys[-1][0] == "tokenizer.chat_template"


def test_only_a_model_that_drafts_has_a_layer_for_it():
    keys = {notation: special(find_model(notation).arch, find_model(notation).spec)
            for notation in ("GA", "qwen35-GA", "GA+M")}  # fmt: skip
    assert [one.get("nextn_predict_layers") for one in keys.values()] == [None, None, 1]


@pytest.mark.parametrize(("notation", "layer", "width"), [
    ("A", 0, 64), ("W8 A", 1, 64), ("GA", 1, 128), ("qwen35-GA", 1, 128), ("CA", 1, 64), ("H", 0, 64)])
def test_the_attention_of_qwen_has_gates_beside_its_queries(notation, layer, width):
    assert elements(notation, layer, "attn_q") == [(64, width)]


@pytest.mark.parametrize("notation", ["A", "W8 A", "GA", "S", "CA", "H"])
def test_norms_are_near_one(notation):
    values = {(tensor.mean, tensor.std) for tensor in tiny_model(find_model(notation)).tensors()
              if re.search(r"(?:attn|ffn|attention|ffw)_norm\b", tensor.name)}  # fmt: skip
    assert values == {(1.0, 0.1)}


SCANS = {"ssm.conv_kernel": 4, "ssm.inner_size": 128, "ssm.state_size": 32, "ssm.time_step_rank": 8,
         "ssm.group_count": 1}  # fmt: skip
DELTAS = {"ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16, "ssm.time_step_rank": 4,
          "ssm.group_count": 2}  # fmt: skip
EXPERTS = {"expert_count": 2, "expert_used_count": 2, "expert_feed_forward_length": 48,
           "expert_shared_feed_forward_length": 48}  # fmt: skip


@pytest.mark.parametrize(("notation", "keys"), [
    ("A", {}), ("H", SCANS), ("S", SCANS), ("SA", SCANS | {"attention.head_count_kv": [0, 2]}),
    ("CA", {"attention.head_count_kv": [0, 2], "shortconv.l_cache": 3}),
    ("GA", DELTAS | EXPERTS | {"full_attention_interval": 2}), ("qwen2vl", {"rope.dimension_sections": [4, 2, 2, 0]}),
    ("qwen35-GA", DELTAS | {"full_attention_interval": 2, "rope.dimension_sections": [4, 2, 2, 0]}),
    ("W8 A", {"attention.sliding_window": 8, "attention.sliding_window_pattern": 2}),
])  # fmt: skip
def test_an_architecture_has_its_own_keys_and_no_other(notation, keys):
    assert special(find_model(notation).arch, find_model(notation).spec) == keys


def test_only_qwen2vl_has_a_bias_for_queries_keys_and_values():
    for notation, biased in (("qwen2vl", ["q", "k", "v"]), ("A", []), ("GA", [])):
        names = [one.name for one in tiny_model(find_model(notation)).tensors()]
        layer = len({name.split(".")[1] for name in names if name.startswith("blk.")}) - 1
        assert [name for name in names if re.search(r"attn_\w+\.bias$", name) and f"blk.{layer}." in name] == [
            f"blk.{layer}.attn_{part}.bias" for part in biased]  # fmt: skip
