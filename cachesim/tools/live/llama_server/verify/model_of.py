"""Layers and vocabulary of a real server's model.

Source: llama.cpp src/llama-model.cpp (b11549): create_memory, and the keys that load_arch_hparams reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.base.gguf_header import read_gguf
from cachesim.base.untrusted_files import FILE, kind
from cachesim.engines.shared.model_layers import layers_in
from cachesim.engines.shared.model_sizes import short_notation
from cachesim.engines.shared.newest_models import NEWEST
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.llama_server.server import BASE
from cachesim.tools.live.token_map import TINY, Vocabulary

RECORDED_NEWEST: Mapping[str, float] = {
    "deepseek4": 2e-3, "deepseek32": 2e-3, "deepseek32one": 2e-3, "qwen4exp": 2e-3, "dots3note": 5e-3,
    "minimax-m3": 5e-2,
}  # fmt: skip
"""Recorded tiny model with one of the newest memories -> largest rounding difference of log-probabilities."""


def base_flags(layers: str) -> tuple[str, ...]:
    """Return the constant flags of a server with this tiny model: MiniMax M3 chooses blocks only with flash
    attention."""
    flash = tuple("on" if before == "-fa" else word for before, word in zip(("", *BASE), BASE, strict=False))
    return flash if layers == "minimax-m3" else BASE


LAYERS: Mapping[str, str] = {
    "llama": "A", "qwen2": "A", "qwen3": "A", "qwen3moe": "A", "mistral3": "A", "phi3": "A", "glm4": "A",
    "deepseek2": "A",
    "gemma2": "W{window} A", "gemma3": "W{window} A", "gemma3n": "W{window} A", "gpt-oss": "W{window} A",
    "mamba": "S", "mamba2": "S", "granitehybrid": "SA", "jamba": "SA", "nemotron_h": "SA", "falcon-h1": "H",
    "qwen3next": "GA", "qwen35": "qwen35-GA", "qwen35moe": "qwen35-GA", "lfm2": "CA", "lfm2moe": "CA",
}  # fmt: skip
"""Minimal layers with the kinds of memory of an architecture."""
TOKENS = "tokenizer.ggml.tokens"
LEAST, MOST = 1_000, 20_000       # tokens of a real vocabulary that are used for words


class RealModelFacts(NamedTuple):
    """A real model: its layers in cachesim's notation, its vocabulary, and whether it is a tiny model, whose stored
    states have the sizes that the simulator counts."""

    layers: str
    vocabulary: Vocabulary
    is_tiny: bool


def from_file(file: Path, layers: str = "") -> RealModelFacts:
    """Read a model file. ``layers``: as given by the user. Raise BadInput if it is not a GGUF, or for an architecture
    with unknown memory."""
    if ours := _ours(file.name):
        return RealModelFacts(layers or ours, TINY, True)
    keys = read_gguf(file, (TOKENS,))
    arch = str(keys.get("general.architecture", ""))
    if arch in NEWEST and not layers:
        layers = short_notation(layers_in(file))
    found = layers or LAYERS.get(arch, "").format(window=keys.get(f"{arch}.attention.sliding_window", 0))
    if not found:
        raise BadInput(f"unknown layers of architecture {quoted(arch)}", file=str(file),
                       hint="name them with --layers, such as 'W1024 A' or GA")  # fmt: skip
    tokens = keys.get(TOKENS)
    size = len(tokens) if isinstance(tokens, list) else 0
    return RealModelFacts(found, real_vocabulary(size or MOST), False)


def from_server(props: Mapping[str, Any], models: Mapping[str, Any], layers: str = "") -> RealModelFacts:
    """Read `/props` and `/v1/models` of a running server. Raise BadInput for unknown layers."""
    file = Path(str(props.get("model_path") or ""))
    if (_ours(file.name) or kind(file) == FILE) and file.suffix == ".gguf":
        return from_file(file, layers)
    if not layers:
        raise BadInput("the server does not report the layers of its model", hint="name them: --layers 'W1024 A'")
    meta = ((models.get("data") or [{}])[0].get("meta") or {})  # fmt: skip
    return RealModelFacts(layers, real_vocabulary(int(meta.get("n_vocab") or MOST)), False)


def real_vocabulary(size: int) -> Vocabulary:
    """Return tokens from the middle of a vocabulary, which has no special tokens there. Their texts are unknown."""
    first = min(LEAST, size // 4)
    return Vocabulary(tuple(range(first, min(first + MOST, size - size // 8))), (), (), {})


def _ours(name: str) -> str:
    """Return the notation in the name of a tiny model, "" for another file."""
    stem = name.removeprefix("tiny-").removesuffix(".gguf")
    if stem in RECORDED_NEWEST and name.startswith("tiny-"):
        return stem
    try:
        return find_model(stem).name if name.startswith("tiny-") else ""
    except BadInput:
        return ""
