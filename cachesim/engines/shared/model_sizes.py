"""Bytes per token and per state of real models, by name or from a config.json or GGUF file.

Source: the configurations named below.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Mapping

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.base.limits import LAYERS
from cachesim.base.untrusted_files import FILE, file_stamp, kind
from cachesim.engines.shared.known_models import MODELS, find, name_parts, plain
from cachesim.engines.shared.model_layers import RealModel, layers_in
from cachesim.engines.shared.newest_sizes import published_models
from cachesim.engines.shared.size_formulas import (
    HEAD,
    LayerSize,
    ModelSizes,
    attention,
    delta_net,
    kimi_delta,
    mamba,
    short_conv,
)
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse


def _real(letters: str, sizes: tuple[LayerSize, ...], repository: str, head: int, context: int, window: int = 0,
          **more: bool | str | tuple[LayerSize, ...]) -> RealModel:
    """Return a model with the layers of these letters; ``sizes`` has a layer of each kind."""
    of = {size.kind: size for size in sizes}
    return RealModel(tuple(of[letter] for letter in letters), f"config.json of {repository}", window, context,
                     head=head, **more)  # type: ignore[arg-type]


def _dense(layers: int, heads: int, head: int, repository: str, context: int) -> RealModel:
    """Return a model whose layers are all attention."""
    return _real("A" * layers, (attention(heads, head, head),), repository, head, context)


def _qwen35(size: str, layers: int, kv_heads: int, value_heads: int, series: str = "3.5") -> RealModel:
    """Return a model of Qwen's series 3.5 or 3.6, whose states are always F32."""
    rows = attention(kv_heads, 256, 256)
    states = delta_net(4, 16, value_heads, 128, 128)
    return _real("GGGA" * (layers // 4), (states, rows), f"Qwen/Qwen{series}-{size}", 256, 262144,
                 mrope=True, heads=(rows,), state_type="float32")  # fmt: skip


def _nemotron(letters: str, heads: int, inner: int, repository: str, context: int) -> RealModel:
    """Return a model of NVIDIA's hybrids: layers without memory are omitted."""
    return _real(letters, (mamba(4, inner, 128, 8), attention(heads, 128, 128)), f"nvidia/{repository}", 128, context,
                 state_type="float32")  # fmt: skip


def _gemma4(letters: str, heads: int, full_heads: int, repository: str) -> RealModel:
    """Return a Gemma 4, whose heads are wider in layers with full attention."""
    sizes = (attention(full_heads, 512, 512), attention(heads, 256, 256, "W"))
    return _real(letters, sizes, f"google/{repository}", 256, 262144, 1024)


_QWEN3_NEXT = (delta_net(4, 16, 32, 128, 128), attention(2, 256, 256))
_NANO = "SSSASSSASSSASSSASSSASSSSASSSS"
_SUPER = "SSSSASSSSASSSSASSSSSASSSSSASSSSSASSSSSASSSSASSSS"
_GPT = (attention(8, 64, 64), attention(8, 64, 64, "W"))
_SIZES: Mapping[str, RealModel] = {
    "qwen3-next": _real("GGGA" * 12, _QWEN3_NEXT, "Qwen/Qwen3-Next-80B-A3B-Instruct", 256, 262144),
    "qwen3-coder-next": _real("GGGA" * 12, _QWEN3_NEXT, "Qwen/Qwen3-Coder-Next", 256, 262144),
    "qwen3.5": _qwen35("9B", 32, 4, 32),
    "qwen3.5-0.8b": _qwen35("0.8B", 24, 2, 16),
    "qwen3.5-2b": _qwen35("2B", 24, 2, 16),
    "qwen3.5-4b": _qwen35("4B", 32, 4, 32),
    "qwen3.5-27b": _qwen35("27B", 64, 4, 48),
    "qwen3.5-35b-a3b": _qwen35("35B-A3B", 40, 2, 32),
    "qwen3.5-122b-a10b": _qwen35("122B-A10B", 48, 2, 64),
    "qwen3.5-397b-a17b": _qwen35("397B-A17B", 60, 2, 64),
    "qwen3.6-27b": _qwen35("27B", 64, 4, 48, "3.6"),
    "qwen3.6-35b-a3b": _qwen35("35B-A3B", 40, 2, 32, "3.6"),
    "kimi-linear": _real("GGGA" * 6 + "GGA", (kimi_delta(4, 32, 128), attention(1, 576, 0)),
                         "moonshotai/Kimi-Linear-48B-A3B-Instruct", 576, 1048576, state_type="float32"),
    "gpt-oss": _real("WA" * 18, _GPT, "openai/gpt-oss-120b", 64, 131072, 128),
    "gpt-oss-20b": _real("WA" * 12, _GPT, "openai/gpt-oss-20b", 64, 131072, 128),
    "llama-3": _dense(32, 8, 128, "meta-llama/Llama-3.1-8B", 131072),
    "mistral": _dense(32, 8, 128, "mistralai/Mistral-7B-v0.3", 32768),
    "qwen3": _dense(36, 8, 128, "Qwen/Qwen3-8B", 40960),
    "qwen2.5": _dense(28, 4, 128, "Qwen/Qwen2.5-7B", 131072),
    "gemma-3": _real("WWWWWA" * 4 + "WW", (attention(1, 256, 256), attention(1, 256, 256, "W")), "google/gemma-3-1b-it",
                     256, 32768, 512, arch="gemma3_text"),
    "gemma-4-26b-a4b": _gemma4("WWWWWA" * 5, 8, 2, "gemma-4-26B-A4B-it"),
    "gemma-4-31b": _gemma4("WWWWWA" * 10, 16, 4, "gemma-4-31B-it"),
    "granite-4.0-h-350m": _real("SSSSSSSSSSASSASSSASSSSSSSSSASSSS", (mamba(4, 1536, 128, 1), attention(4, 64, 64)),
                                "ibm-granite/granite-4.0-h-350m", 64, 32768),
    "granite-4.0-h-small": _real("SSSSSASSSSSSSSSASSSSSSSSSASSSSSSSSSASSSS", (mamba(4, 8192, 128, 1),
                                 attention(8, 128, 128)), "ibm-granite/granite-4.0-h-small", 128, 131072),
    "nemotron-3-nano": _nemotron(_NANO, 2, 4096, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 262144),
    "nemotron-3.5-lightning": _nemotron(_NANO, 2, 4096, "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", 262144),
    "nemotron-3-super": _nemotron(_SUPER, 2, 8192, "NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 262144),
    "nemotron-nano-9b-v2": _nemotron("SSSSSSSSASSSASSSSASSSSASSSSSSSS", 8, 10240, "NVIDIA-Nemotron-Nano-9B-v2", 131072),
    "mamba-2": _real("S" * 64, (mamba(4, 5120, 128, 1),), "state-spaces/mamba2-2.7b", HEAD, 0),
    "lfm2-1.2b": _real("CCACCACCACACACAC", (short_conv(3, 2048), attention(8, 64, 64)), "LiquidAI/LFM2-1.2B", 64,
                       128000),
    **published_models(),
}  # fmt: skip
"""Name -> the layers of the model in its config.json."""
_PLAIN = {plain(name): name for name in _SIZES}
_SIZE = re.compile(r"a?\d+(x\d+)?[bm]")                                   # 35b, a3b, 8x7b, 350m
_TAIL = re.compile(r"a?\d+(x\d+)?[bm]|fp8|nvfp4|bf16|int4|awq|gptq")
_LEADING = "nvidia"                     # begins the names of this organisation's models, too


def known_sizes() -> list[str]:
    """Return the names of models whose sizes are known without a file."""
    return list(_SIZES)


def sized_name(word: str) -> str:
    """Return the name in ``known_sizes`` of the model that a text names, "" if the sizes of this very model are not
    known: those of another size of its family do not count."""
    parts = name_parts(word)
    parts = parts[1:] if parts[:1] == [_LEADING] else parts
    sizes = {part for part in parts if _SIZE.fullmatch(part)}
    prefixes = (_PLAIN.get("".join(parts[:n])) for n in range(len(parts), 0, -1) if _ends_name(parts, n))
    for name in filter(None, (*prefixes, find(word))):
        if name in _SIZES and sizes <= {*name_parts(_SIZES[name].source)}:
            return name
    return ""


def _ends_name(parts: list[str], n: int) -> bool:
    """True if the name of a model may end after ``n`` parts: it contains a size, or a size or type follows."""
    named = any(_SIZE.fullmatch(part) for part in parts[:n])
    return n == len(parts) or named or bool(_TAIL.fullmatch(parts[n]))


def real_model(word: str) -> RealModel:
    """Return the layers of a model given by name or by the path of a config.json or GGUF. Raise BadInput."""
    if name := sized_name(word):
        return _SIZES[name]
    if file := model_file(word):
        return _layers_of(file)
    near = nearest(word.casefold(), _SIZES)
    known = f"{near} or" if near else f"known: {first_of(list(_SIZES))}; or"
    hint = f"{known} give the path of its config.json or GGUF"
    raise BadInput(f"unknown sizes of K/V rows and states: model {quoted(word)}", hint=hint)


def older_model(word: str, engine: str) -> RealModel:
    """Return the layers of a real model for an engine that has no layers with chosen or compressed rows. Raise
    BadInput."""
    model = real_model(word)
    for layer in model.layers:
        if layer.kind and KINDS[layer.kind].newest:
            raise BadInput(f"{engine}: model {quoted(word)} is not simulated: its layers have "
                           f"{KINDS[layer.kind].words}")  # fmt: skip
    return model


def model_file(word: str) -> str:
    """Return the path of the config.json or GGUF that a text names, also by its folder; "" for any other text."""
    if word.endswith((".json", ".gguf")):
        return word
    config = Path(word) / "config.json"
    return str(config) if os.sep in word and kind(config) == FILE else ""


def _layers_of(file: str) -> RealModel:
    """Return the layers in a file, which is read once as long as it stays the same. Raise BadInput."""
    return _read_once(file, file_stamp(file))


@lru_cache(maxsize=16)
def _read_once(file: str, stamp: tuple[int, int]) -> RealModel:
    return layers_in(Path(file))


def sizes_of(word: str) -> ModelSizes:
    """Return the sizes of a model given by name or by the path of a config.json or GGUF. Raise BadInput."""
    sizes, known = sizes_in(real_model(word)), MODELS.get(sized_name(word))
    return sizes._replace(layers=known.layers) if known else sizes


def sizes_in(model: RealModel) -> ModelSizes:
    """Return the sizes of a model, with its layers shortened to their repeating run. If the rows differ between layers,
    the largest count."""
    rows, states = [*model.full, *model.windows], model.states
    return ModelSizes(short_notation(model), len(rows), recurrent=len(states),
                      row=max((one.row + one.index_row for one in rows), default=0),
                      state=max((one.state for one in states), default=0), source=model.source,
                      head=model.head if rows else HEAD)  # fmt: skip


def short_notation(model: RealModel) -> str:
    """Return the notation of a model's layers: their repeating run, cut at the most layers of a notation."""
    names = [f"W{model.window}" if layer.kind == "W" else layer.kind + layer.numbers
             for layer in model.layers if layer.kind]  # fmt: skip
    every = len(names)
    run = next((n for n in range(1, every) if every % n == 0 and names == names[:n] * (every // n)), 0)
    short = names[: min(run or every, LAYERS.now)]
    notation = (" " if any(len(name) > 1 for name in short) else "").join(short)
    parse(notation)
    return notation


__all__ = ["ModelSizes", "known_sizes", "model_file", "older_model", "real_model", "short_notation", "sized_name",
           "sizes_in", "sizes_of"]
