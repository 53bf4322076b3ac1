"""Sizes of real models: by name, from a config.json, from the header of a GGUF."""

import json
import struct
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import (
    known_sizes,
    older_model,
    real_model,
    sized_name,
    sizes_in,
    sizes_of,
)
from cachesim.engines.shared.size_formulas import (
    DeclaredSizes,
    LayerSize,
    ModelSizes,
    name_with_sizes,
    split_sizes,
    states_bytes,
)
from cachesim.model import parse

QWEN = {
    "num_hidden_layers": 48, "full_attention_interval": 4, "num_attention_heads": 16, "num_key_value_heads": 2,
    "head_dim": 256, "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
    "linear_key_head_dim": 128, "linear_value_head_dim": 128,
}  # fmt: skip
QWEN_KEYS = {
    "block_count": 48, "full_attention_interval": 4, "attention.head_count": 16, "attention.head_count_kv": 2,
    "attention.key_length": 256, "attention.value_length": 256, "embedding_length": 2048, "ssm.conv_kernel": 4,
    "ssm.group_count": 16, "ssm.time_step_rank": 32, "ssm.state_size": 128, "ssm.inner_size": 4096,
}  # fmt: skip


def gguf(tmp_path, arch, keys, tail=b""):
    """A GGUF of these keys, numbers as unsigned integers of 32 bits, and a vocabulary that is never read."""
    def text(word):
        return struct.pack("<Q", len(word)) + word.encode()

    body = text("general.architecture") + struct.pack("<I", 8) + text(arch)
    for name, value in keys.items():
        body += text(f"{arch}.{name}")
        if isinstance(value, list):
            body += struct.pack("<IIQ", 9, 4, len(value)) + struct.pack(f"<{len(value)}I", *value)
        else:
            body += struct.pack("<II", 4, value)
    body += text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("gpt2")
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys) + 2) + body + tail)
    return str(file)


def test_a_checkpoint_of_qwen3_next_weighs_what_its_server_logs():
    found = sizes_of("Qwen/Qwen3-Next-80B-A3B-Instruct")
    assert (found.token_bytes, found.state_bytes / 2**20) == (24576, 75.375)


def test_config_and_gguf_say_the_same_as_the_name(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"text_config": QWEN}))
    named = sizes_of("qwen3-next")
    for word in (str(file), gguf(tmp_path, "qwen3next", QWEN_KEYS)):
        assert sizes_of(word)._replace(source=named.source) == named


@pytest.mark.parametrize(("arch", "keys", "layers", "token", "state"), [
    ("llama", {"block_count": 2, "attention.head_count": 8, "attention.head_count_kv": 2, "embedding_length": 512},
     "A", 2 * 2 * 128 * 2, 0),
    ("mamba2", {"block_count": 2, "ssm.conv_kernel": 4, "ssm.inner_size": 64, "ssm.state_size": 16,
                "attention.head_count": 0}, "S", 0, 2 * 4 * (3 * 96 + 1024)),
    ("lfm2", {"block_count": 3, "attention.head_count": 4, "attention.head_count_kv": [0, 2, 0], "shortconv.l_cache": 3,
              "embedding_length": 64}, "CAC", 2 * 32 * 2, 2 * 2 * 64 * 4),
    ("gpt-oss", {"block_count": 4, "attention.head_count": 4, "attention.head_count_kv": 1, "embedding_length": 64,
                 "attention.sliding_window": 128}, "W128 A", 4 * 32 * 2, 0),
])  # fmt: skip
def test_the_header_of_a_gguf_says_which_layers_there_are(tmp_path, arch, keys, layers, token, state):
    found = sizes_of(gguf(tmp_path, arch, keys))
    assert (found.layers, found.token_bytes, found.state_bytes) == (layers, token, state)


def test_layer_types_name_the_layers(tmp_path):
    types = ["sliding_attention", "full_attention"] * 3
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"layer_types": types, "num_attention_heads": 4, "num_key_value_heads": 2,
                                "hidden_size": 64, "sliding_window": 32}))  # fmt: skip
    found = sizes_of(str(file))
    assert (found.layers, found.full, found.window) == ("W32 A", 3 * 2 * 32 * 2, 3 * 2 * 32 * 2)


@pytest.mark.parametrize(("name", "content", "told"), [
    ("config.json", b"[]", "not a model configuration"),
    ("config.json", b'{"num_hidden_layers": 1e9}', "key num_attention_heads|key num_hidden_layers is not an integer"),
    ("config.json", b'{"num_hidden_layers": 99999}', "layers out of range: 99999"),
    ("config.json", b'{"layer_types": ["dance"]}', "unknown kind in layer_types"),
    ("model.gguf", b"GGML", "not a GGUF of version 2 or 3|truncated"),
    ("model.gguf", b"GGUF\x03\0\0\0" + b"\xff" * 40, "truncated"),
    ("none.gguf", None, "no such file"),
])  # fmt: skip
def test_what_names_no_sizes_is_refused_in_a_line(tmp_path, name, content, told):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput, match=told):
        sizes_of(str(file))


@pytest.mark.long
def test_a_header_is_cut_anywhere_without_a_traceback(tmp_path):
    whole = Path(gguf(tmp_path, "qwen3next", QWEN_KEYS)).read_bytes()
    for n in range(0, len(whole) - 30, 7):
        (tmp_path / "cut.gguf").write_bytes(whole[:n])
        with pytest.raises(BadInput):
            sizes_of(str(tmp_path / "cut.gguf"))


def test_sizes_of_few_layers_add_up_to_the_real_ones():
    for name in known_sizes():
        found = sizes_of(name)
        layers, sizes = split_sizes(found.declared(found.layers, 64))
        assert sizes is not None and layers == found.layers


def test_only_windows_of_unscaled_tokens_declare_the_width_of_a_head():
    gemma, hybrid = sizes_of("gemma-3-12b"), sizes_of("qwen3-next")
    assert (gemma.declared(gemma.layers)[-4:], gemma.declared(gemma.layers, 64).count("/")) == ("/256", 1)
    assert hybrid.head == 256 and hybrid.declared("GGGA") == "GGGA@24576/26345472"
    assert split_sizes("W8 A@512/0/64") == ("W8 A", DeclaredSizes(512, 0, 64))
    assert split_sizes("A@512/0")[1] == DeclaredSizes(512, 0)


@pytest.mark.parametrize("profile", ["llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"])
def test_every_engine_takes_declared_sizes(profile):
    engine = ENGINES[profile.partition("@")[0]]
    server = engine.start(profile, name_with_sizes("GGGA", DeclaredSizes(24576, 26345472)), {}, "none")
    assert server.sizes.stored_bytes() == (0, 0)
    with pytest.raises(BadInput, match="expected two sizes in bytes"):
        engine.start(profile, "GGGA@12", {}, "none")


def test_a_kind_that_was_not_recorded_has_the_bytes_of_our_own_numbers():
    spec = parse("GCAH")
    assert states_bytes(spec, {"G": 5632, "C": 512, "H": 18688}, 0) == 5632 + 512 + 18688
    assert states_bytes(spec, {"G": 5632}, 0) == 5632 + 4 * 2 * 32 + 4 * (3 * 96 + 4 * 16 * 16)
    assert states_bytes(spec, {"G": 5632}, 100) == 3 * 100


KNOWN = {
    "qwen3-next": ("GGGA", 24576, 79036416, 256, 262144),
    "qwen3-coder-next": ("GGGA", 24576, 79036416, 256, 262144),
    "qwen3.5": ("GGGA", 32768, 52690944, 256, 262144),
    "qwen3.5-0.8b": ("GGGA", 12288, 20201472, 256, 262144),
    "qwen3.5-2b": ("GGGA", 12288, 20201472, 256, 262144),
    "qwen3.5-4b": ("GGGA", 32768, 52690944, 256, 262144),
    "qwen3.5-27b": ("GGGA", 65536, 156893184, 256, 262144),
    "qwen3.5-35b-a3b": ("GGGA", 20480, 65863680, 256, 262144),
    "qwen3.5-122b-a10b": ("GGGA", 24576, 156303360, 256, 262144),
    "qwen3.5-397b-a17b": ("GGGA", 30720, 195379200, 256, 262144),
    "qwen3.6-27b": ("GGGA", 65536, 156893184, 256, 262144),
    "qwen3.6-35b-a3b": ("GGGA", 20480, 65863680, 256, 262144),
    "qwen3.8-27b": ("GGGA", 65536, 156893184, 256, 262144),
    "kimi-linear": ("GGGA", 8064, 44892160, 576, 1048576),
    "gpt-oss": ("W128 A", 73728, 0, 64, 131072),
    "gpt-oss-20b": ("W128 A", 49152, 0, 64, 131072),
    "llama-3": ("AAAA", 131072, 0, 128, 131072),
    "llama-3.1-70b": ("A", 327680, 0, 128, 131072),
    "llama-3.1-405b": ("A", 516096, 0, 128, 131072),
    "llama-3.2-1b": ("A", 32768, 0, 64, 131072),
    "llama-3.2-3b": ("A", 114688, 0, 128, 131072),
    "mistral": ("AAAA", 131072, 0, 128, 32768),
    "mixtral-8x7b": ("A", 131072, 0, 128, 32768),
    "mixtral-8x22b": ("A", 229376, 0, 128, 65536),
    "qwen3": ("AAAA", 147456, 0, 128, 40960),
    "qwen3-0.6b": ("A", 114688, 0, 128, 40960),
    "qwen3-1.7b": ("A", 114688, 0, 128, 40960),
    "qwen3-4b": ("A", 147456, 0, 128, 40960),
    "qwen3-14b": ("A", 163840, 0, 128, 40960),
    "qwen3-32b": ("A", 262144, 0, 128, 40960),
    "qwen3-30b-a3b": ("A", 98304, 0, 128, 40960),
    "qwen3-235b-a22b": ("A", 192512, 0, 128, 40960),
    "qwen3-4b-2507": ("A", 147456, 0, 128, 262144),
    "qwen3-30b-a3b-2507": ("A", 98304, 0, 128, 262144),
    "qwen3-235b-a22b-2507": ("A", 192512, 0, 128, 262144),
    "qwen3-coder-480b-a35b": ("A", 253952, 0, 128, 262144),
    "qwen3-vl-2b": ("A", 114688, 0, 128, 262144),
    "qwen3-vl-4b": ("A", 147456, 0, 128, 262144),
    "qwen3-vl-8b": ("A", 147456, 0, 128, 262144),
    "qwen3-vl-32b": ("A", 262144, 0, 128, 262144),
    "qwen3-vl-30b-a3b": ("A", 98304, 0, 128, 262144),
    "qwen3-vl-235b-a22b": ("A", 192512, 0, 128, 262144),
    "qwen2.5": ("AAAA", 57344, 0, 128, 131072),
    "qwen2.5-7b-instruct": ("A", 57344, 0, 128, 32768),
    "glm-4.5": ("AAAA", 376832, 0, 128, 131072),
    "glm-4.6": ("A", 376832, 0, 128, 202752),
    "minimax-m2.1": ("A", 253952, 0, 128, 196608),
    "minimax-m2.5": ("A", 253952, 0, 128, 196608),
    "deepseek-v3": ("AAAA", 70272, 0, 576, 163840),
    "deepseek-v3.1": ("A", 70272, 0, 576, 163840),
    "deepseek-r1": ("A", 70272, 0, 576, 163840),
    "kimi-k2-instruct": ("A", 70272, 0, 576, 131072),
    "kimi-k2.5": ("A", 70272, 0, 576, 262144),
    "kimi-k2.6": ("A", 70272, 0, 576, 262144),
    "kimi-k2.7-code": ("A", 70272, 0, 576, 262144),
    "gemma-3": ("W512 W512 W512 W512 W512 A", 26624, 0, 256, 32768),
    "gemma-3-270m": ("W512 W512 W512 W512 W512 A", 18432, 0, 256, 32768),
    "gemma-3-4b": ("W1024 W1024 W1024 W1024 W1024 A", 139264, 0, 256, 131072),
    "gemma-3-12b": ("W1024 W1024 W1024 W1024 W1024 A", 393216, 0, 256, 131072),
    "gemma-3-27b": ("W1024 W1024 W1024 W1024 W1024 A", 507904, 0, 128, 131072),
    "gemma-4-26b-a4b": ("W1024 W1024 W1024 W1024 W1024 A", 225280, 0, 256, 262144),
    "gemma-4-31b": ("W1024 W1024 W1024 W1024 W1024 A", 901120, 0, 256, 262144),
    "mimo-v2-flash": ("A W128 W128 W128 W128 W128", 222720, 0, 192, 262144),
    "step-3.5-flash": ("A W512 W512 W512", 184320, 0, 128, 262144),
    "step-3.7-flash": ("A W512 W512 W512", 184320, 0, 128, 262144),
    "granite-4.0-h-350m": ("SSSSSSSSSSASSASSSASSSSSSSSSASSSS", 4096, 22622208, 64, 32768),
    "granite-4.0-h-small": ("SSSSSASSSS", 16384, 154644480, 128, 131072),
    "nemotron-3-nano": ("SSSAS", 6144, 49930240, 128, 262144),
    "nemotron-3.5-lightning": ("SSSASSSASSSASSSASSSASSSSASSSS", 6144, 49930240, 128, 1048576),
    "nemotron-3-super": ("SSSSAS", 8192, 172687360, 128, 262144),
    "nemotron-3-ultra": ("SSSSA", 12288, 413270016, 128, 262144),
    "nemotron-nano-9b-v2": ("SSSSSSSSASSSASSSSASSSSASSSSSSSS", 16384, 145539072, 128, 131072),
    "mamba-2": ("SSSS", 0, 171900928, 16, 0),
    "lfm2-1.2b": ("CCACCACA", 12288, 163840, 64, 128000),
    "deepseek-v3.2": ("I2048", 85888, 0, 576, 163840),
    "deepseek-v4": ("W128 D4.128.512 D128.128", 44032, 0, 512, 1048576),
    "deepseek-v4-pro": ("D128.128 D4.128.1024", 62464, 0, 512, 1048576),
    "glm-5": ("I2048", 109824, 0, 576, 202752),
    "glm-5.1": ("I2048", 109824, 0, 576, 202752),
    "glm-5.2": ("I2048 A A A", 95232, 0, 576, 1048576),
    "glm-5-next": ("G G G P2048", 19712, 152633344, 512, 1048576),
    "hunyuan-v4": ("I2048 A A A", 41728, 0, 576, 262144),
    "dots-3": ("I2048 W513 W513 W513", 90112, 0, 576, 524288),
    "minimax-m3": ("A B128 B128 B128", 152064, 0, 128, 524288),
    "qwen3.8-flash-next": ("G G G P2048", 30720, 117669888, 256, 262144),
}
"""Layers; bytes of a token's rows and of all states; width of a head; context [tokens]."""


def test_the_named_models_have_the_sizes_of_their_config_files():
    found = {name: (sizes_of(name), real_model(name).context) for name in known_sizes()}
    assert {name: (of.layers, of.token_bytes, of.state_bytes, of.head, context)
            for name, (of, context) in found.items()} == KNOWN  # fmt: skip


def test_an_engine_without_chosen_rows_refuses_models_with_them():
    assert older_model("qwen3.5-4b", "vLLM") == real_model("qwen3.5-4b")
    with pytest.raises(BadInput, match=r"^vLLM: model 'deepseek-v3\.2' is not simulated: its layers have "):
        older_model("deepseek-v3.2", "vLLM")


def test_layers_of_different_sizes_are_added_up():
    """Bytes of F16 rows and F32 states; the index row of a token is part of its row."""
    small, large = LayerSize("A", 8, 8), LayerSize("I", 16, 8, numbers="4", index_key=10)
    slow, fast = LayerSize("G", conv=3, matrix=20), LayerSize("G", conv=9, matrix=4)
    model = RealModel((small, slow, large, fast, LayerSize("")), "a file", head=64)
    assert sizes_in(model) == ModelSizes("A G I4 G", 2 * (16 + 24 + 10), 0, 4 * (23 + 13), "a file", 64)
    assert sizes_in(RealModel((slow,), "a file", head=64)) == ModelSizes("G", 0, 0, 92, "a file")
    window = RealModel((LayerSize("W", 4, 4), LayerSize("W", 40, 4)), "a file", window=8, head=16)
    assert sizes_in(window) == ModelSizes("W8", 0, 2 * 52, 0, "a file", 16)


@pytest.mark.parametrize(("word", "name"), [
    ("Qwen3.5-4B-claude-distilled", "qwen3.5-4b"), ("nvidia-qwen3.6-27b-FP8", "qwen3.6-27b"),
    ("NVIDIA-Nemotron-Nano-9B-v2-GGUF", "nemotron-nano-9b-v2"), ("nvidia-llama-3", "llama-3"),
    ("qwen3.5-14b", ""), ("nvidia", ""),
])  # fmt: skip
def test_a_name_may_go_on_after_its_size_and_begin_with_an_organisation(word, name):
    assert sized_name(word) == name


def test_qwens_series_with_a_head_that_drafts_has_the_rows_of_its_attention():
    series = [name for name in known_sizes() if name.startswith(("qwen3.5", "qwen3.6", "qwen3.8-27b"))]
    assert len(series) > 8
    for name in series:
        model = real_model(name)
        assert model.heads == (model.layers[-1],) and model.layers[-1].kind == "A"
    assert not real_model("qwen3-next").heads
