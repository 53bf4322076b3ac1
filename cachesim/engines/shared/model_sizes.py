"""Bytes per token and per state of real models, by name or from a config.json or GGUF file.

Source: the configurations named below, and those of huggingface/transformers; llama.cpp src/llama-hparams.cpp (b11549).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping

from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.gguf_header import read_gguf
from cachesim.base.limits import LAYERS
from cachesim.base.untrusted_files import read_json
from cachesim.engines.shared.known_models import MODELS, find
from cachesim.engines.shared.size_formulas import F32, HEAD, ModelSizes, attention_row, delta_state, mamba_state
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse

_ATTENTION_8B = attention_row(8, 128, 128)
_QWEN3_NEXT = delta_state(4, 16, 32, 128, 128)
_SIZES: Mapping[str, tuple[int, int, int, int, str, int]] = {
    "qwen3-next": (12, 36, attention_row(2, 256, 256), _QWEN3_NEXT, "Qwen/Qwen3-Next-80B-A3B-Instruct", 256),
    "gpt-oss": (36, 0, attention_row(8, 64, 64), 0, "openai/gpt-oss-120b", 64),
    "llama-3": (32, 0, _ATTENTION_8B, 0, "meta-llama/Llama-3.1-8B", 128),
    "mistral": (32, 0, _ATTENTION_8B, 0, "mistralai/Mistral-7B-v0.3", 128),
    "qwen3": (36, 0, _ATTENTION_8B, 0, "Qwen/Qwen3-8B", 128),
    "qwen2.5": (28, 0, attention_row(4, 128, 128), 0, "Qwen/Qwen2.5-7B", 128),
    "gemma-3": (26, 0, attention_row(1, 256, 256), 0, "google/gemma-3-1b-it", 256),
    "mamba-2": (0, 64, 0, mamba_state(4, 5120, 128, 1), "state-spaces/mamba2-2.7b", HEAD),
    "lfm2-1.2b": (6, 10, attention_row(8, 64, 64), 2 * 2048 * F32, "LiquidAI/LFM2-1.2B", 64),
}
"""Name -> layers with K/V rows, layers with a state, bytes of a row, bytes of a state, repository of the config.json,
width of a head."""


def known_sizes() -> list[str]:
    """Return the names of models whose sizes are known without a file."""
    return list(_SIZES)


def sizes_of(word: str) -> ModelSizes:
    """Return the sizes of a model given by name or by the path of a config.json or GGUF. Raises BadInput."""
    name = find(word)
    if name is not None and name in _SIZES:
        attention, recurrent, row, state, repository, head = _SIZES[name]
        source = f"config.json of {repository}"
        return ModelSizes(MODELS[name].layers, attention, recurrent, row, state, source, head)
    path = Path(word)
    if path.suffix in (".json", ".gguf"):
        return sizes_in(path)
    hint = f"known: {', '.join(_SIZES)}; or give the path of its config.json or GGUF"
    raise BadInput(f"unknown sizes of K/V rows and states: model {quoted(word)}", hint=hint)


LARGEST = 1 << 24         # largest accepted number in a configuration
MOST_LAYERS = 1024


def sizes_in(path: Path) -> ModelSizes:
    """Return the sizes in a config.json or GGUF. Raises BadInput for any other file and for a missing size."""
    if path.suffix == ".gguf":
        return _of_gguf(read_gguf(path), str(path))
    config = read_json(path, "configuration")
    if isinstance(config, dict) and isinstance(config.get("text_config"), dict):
        config = config["text_config"]
    if not isinstance(config, dict):
        raise BadInput("not a model configuration: expected an object", file=str(path))
    return _of_config(_Numbers(config, str(path)))


class _Numbers:
    """Sizes by key; each is an integer from 0 to LARGEST."""

    def __init__(self, keys: Mapping[str, Any], file: str, prefix: str = "") -> None:
        self.keys, self.file, self.prefix = keys, file, prefix

    def get(self, name: str, default: int | None = None) -> int:
        """Return the number of this name. Raises BadInput if it is missing without a default, and for an invalid
        number."""
        value = self.keys.get(self.prefix + name)
        if value is None:
            value = default
        if type(value) is not int or not 0 <= value <= LARGEST:
            what = "is missing" if value is None else f"is not an integer from 0 to {LARGEST}"
            raise BadInput(f"key {cut(self.prefix + name)} {what}", file=self.file)
        return value

    def words(self, name: str) -> list[Any]:
        """Return the list of this name, [] if it is missing."""
        value = self.keys.get(self.prefix + name)
        return value[:MOST_LAYERS] if isinstance(value, list) else []


LAYER_TYPES = {"full_attention": "A", "attention": "A", "sliding_attention": "W", "linear_attention": "G",
               "conv": "C", "mamba": "S", "hybrid": "H"}  # fmt: skip
"""``layer_types`` of a configuration -> letters of the notation."""


def _of_config(keys: _Numbers) -> ModelSizes:
    letters = _config_layers(keys)
    heads = keys.get("num_attention_heads", 0)
    head = keys.get("head_dim", keys.get("hidden_size", 0) // heads if heads else 0)
    row = attention_row(keys.get("num_key_value_heads", heads), head, head)
    state = 0
    if "G" in letters:
        names = ("conv_kernel_dim", "num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
        state = delta_state(*(keys.get(f"linear_{name}") for name in names))
    elif "C" in letters:
        state = (keys.get("conv_L_cache") - 1) * keys.get("hidden_size") * F32
    elif "S" in letters or "H" in letters:
        inner = keys.get("mamba_n_heads", 0) * keys.get("mamba_d_head", 0) or keys.get("mamba_d_ssm", 0)
        state = mamba_state(keys.get("mamba_d_conv", 4), inner or keys.get("mamba_expand", 2) * keys.get("hidden_size"),
                            keys.get("mamba_d_state"), keys.get("mamba_n_groups", 1))  # fmt: skip
    return _sizes(letters, keys.get("sliding_window", 0), row, state, keys.file, head)


def _config_layers(keys: _Numbers) -> str:
    """Return a letter for each layer."""
    if types := keys.words("layer_types"):
        found = [LAYER_TYPES.get(str(kind)) for kind in types]
        if None in found:
            raise BadInput("unknown kind in layer_types", file=keys.file, hint=", ".join(LAYER_TYPES))
        return "".join(letter for letter in found if letter)
    n, every = _count(keys.get("num_hidden_layers"), keys.file), keys.get("full_attention_interval", 0)
    if every:
        return "".join("A" if (i + 1) % every == 0 else "G" for i in range(n))
    return "A" * n


def _of_gguf(header: Mapping[str, Any], file: str) -> ModelSizes:
    keys = _Numbers(header, file, f"{header.get('general.architecture', '')}.")
    letters = _gguf_layers(keys, _count(keys.get("block_count"), file))
    state = 0
    if "G" in letters:
        heads = keys.get("ssm.time_step_rank")
        value = keys.get("ssm.inner_size") // max(1, heads)
        taps, groups = keys.get("ssm.conv_kernel"), keys.get("ssm.group_count")
        state = delta_state(taps, groups, heads, keys.get("ssm.state_size"), value)
    elif "S" in letters or "H" in letters:
        state = mamba_state(keys.get("ssm.conv_kernel"), keys.get("ssm.inner_size"), keys.get("ssm.state_size"),
                            keys.get("ssm.group_count", 1))  # fmt: skip
    elif "C" in letters:
        state = (keys.get("shortconv.l_cache") - 1) * keys.get("embedding_length") * F32
    row, head = _gguf_row(keys) if any(KINDS[letter].attention for letter in letters) else (0, HEAD)
    return _sizes(letters, keys.get("attention.sliding_window", 0), row, state, file, head)


def _gguf_layers(keys: _Numbers, n: int) -> str:
    """Return a letter for each layer."""
    every, recurrent = keys.get("full_attention_interval", 0), keys.words("attention.recurrent_layers")
    heads = keys.words("attention.head_count_kv")
    if recurrent:
        return "".join("G" if recurrent[i % len(recurrent)] else "A" for i in range(n))
    if every:
        return "".join("A" if (i + 1) % every == 0 else "G" for i in range(n))
    if heads and not all(heads):
        rest = "C" if keys.get("shortconv.l_cache", 0) else "S"
        return "".join("A" if heads[i % len(heads)] else rest for i in range(n))
    if keys.get("ssm.state_size", 0):
        return ("H" if heads or keys.get("attention.head_count_kv", 0) else "S") * n
    if not keys.get("attention.sliding_window", 0):
        return "A" * n
    windows = keys.words("attention.sliding_window_pattern") or [True, False]       # default: every other layer
    return "".join("W" if windows[i % len(windows)] else "A" for i in range(n))


def _gguf_row(keys: _Numbers) -> tuple[int, int]:
    """Return bytes of a row and width of a head; if the number of heads differs between layers, the largest number."""
    all_heads = keys.get("attention.head_count")
    heads = [n for n in keys.words("attention.head_count_kv") if type(n) is int and 0 < n <= LARGEST]
    kv_heads = max(heads) if heads else keys.get("attention.head_count_kv", all_heads)
    head = keys.get("embedding_length") // max(1, all_heads)
    key = keys.get("attention.key_length", head)
    return attention_row(kv_heads, key, keys.get("attention.value_length", head)), key


def _count(n: int, file: str) -> int:
    if not 1 <= n <= MOST_LAYERS:
        raise BadInput(f"number of layers out of range: {n}", file=file, hint=f"1 to {MOST_LAYERS}")
    return n


def _sizes(letters: str, window: int, row: int, state: int, file: str, head: int) -> ModelSizes:
    """Return the sizes, with the layers shortened to their repeating run and to the number of layers that a model may
    have."""
    run = re.fullmatch(r"(.+?)\1*", letters)
    short = (run[1] if run else letters)[: LAYERS.now]
    notation = " ".join(f"W{window}" if letter == "W" else letter for letter in short) if "W" in short else short
    parse(notation)
    attention = sum(KINDS[letter].attention is not None for letter in letters)
    recurrent = sum(KINDS[letter].recurrence is not None for letter in letters)
    row, state, head = row if attention else 0, state if recurrent else 0, head if attention else HEAD
    return ModelSizes(notation, attention, recurrent, row, state, file, head)

__all__ = ["ModelSizes", "known_sizes", "sizes_of"]
