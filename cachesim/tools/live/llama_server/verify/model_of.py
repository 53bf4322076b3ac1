"""Which layers and which vocabulary has the model of a real server? Read from its file, or from what the server says.

Source: llama.cpp src/llama-model.cpp (b11549): create_memory, and the keys that load_arch_hparams reads.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.base.extras import install_command
from cachesim.tools.live.llama_server.gguf_models import find_model
from cachesim.tools.live.token_map import TINY, Vocabulary

LAYERS: Mapping[str, str] = {
    "llama": "A", "qwen2": "A", "qwen3": "A", "qwen3moe": "A", "mistral3": "A", "phi3": "A", "glm4": "A",
    "deepseek2": "A",
    "gemma2": "W{window} A", "gemma3": "W{window} A", "gemma3n": "W{window} A", "gpt-oss": "W{window} A",
    "mamba": "S", "mamba2": "S", "granitehybrid": "SA", "jamba": "SA", "nemotron_h": "SA", "falcon-h1": "H",
    "qwen3next": "GA", "qwen35": "qwen35-GA", "qwen35moe": "qwen35-GA", "lfm2": "CA", "lfm2moe": "CA",
}  # fmt: skip
"""Architecture -> the fewest layers with a memory of its kinds."""
LEAST, MOST = 1_000, 20_000       # tokens of a real vocabulary that stand for words


class Facts(NamedTuple):
    """A real model: layers in our notation, its vocabulary, and whether it is one of ours, whose stored states have the
    sizes that the simulator counts."""

    layers: str
    vocabulary: Vocabulary
    tiny: bool


def from_file(file: Path, layers: str = "") -> Facts:
    """What a model file says. ``layers``: what the user says it is. Raises BadInput for a file that is none, and for an
    architecture whose memory is not known."""
    if ours := _ours(file.name):
        return Facts(layers or ours, TINY, True)
    keys = _keys(file)
    arch = str(keys.get("general.architecture", ""))
    found = layers or LAYERS.get(arch, "").format(window=keys.get(f"{arch}.attention.sliding_window", 0))
    if not found:
        raise BadInput(f"architecture {quoted(arch)}: which layers it has is not known", file=str(file),
                       hint="--layers says it, such as 'W1024 A' or GA")  # fmt: skip
    return Facts(found, real_vocabulary(int(keys["n_vocab"])), False)


def from_server(props: Mapping[str, Any], models: Mapping[str, Any], layers: str = "") -> Facts:
    """What a running server says of its model in `/props` and `/v1/models`. Raises BadInput as above."""
    file = Path(str(props.get("model_path") or ""))
    if (_ours(file.name) or file.is_file()) and file.suffix == ".gguf":
        return from_file(file, layers)
    if not layers:
        raise BadInput("the server does not say which layers its model has", hint="--layers says it, such as 'W1024 A'")
    meta = ((models.get("data") or [{}])[0].get("meta") or {})  # fmt: skip
    return Facts(layers, real_vocabulary(int(meta.get("n_vocab") or MOST)), False)


def real_vocabulary(size: int) -> Vocabulary:
    """Tokens from the middle of a vocabulary, where no special ones are. None of them has a text that we know."""
    first = min(LEAST, size // 4)
    return Vocabulary(tuple(range(first, min(first + MOST, size - size // 8))), (), (), {})


def _ours(name: str) -> str:
    """The notation in the name of a tiny model, "" for another file."""
    stem = name.removeprefix("tiny-").removesuffix(".gguf")
    try:
        return find_model(stem).name if name.startswith("tiny-") else ""
    except BadInput:
        return ""


def _keys(file: Path) -> dict[str, Any]:
    """The keys of a GGUF, and ``n_vocab``. Raises BadInput."""
    try:
        reader = import_module("gguf").GGUFReader(file)
    except ImportError:
        raise BadInput("reading a model needs the package gguf", hint=install_command("gguf")) from None
    except (OSError, ValueError) as error:
        raise BadInput(f"no GGUF: {error}", file=str(file)) from None
    tokens = reader.fields.get("tokenizer.ggml.tokens")
    keys = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("tokenizer.")}
    return {**keys, "n_vocab": len(tokens.data) if tokens else MOST}
