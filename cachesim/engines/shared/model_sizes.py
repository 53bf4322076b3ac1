"""Bytes per token and per state of real models, by name or from a config.json or GGUF file.

Source: the configurations named below.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import LAYERS
from cachesim.engines.shared.known_models import MODELS, find, plain
from cachesim.engines.shared.model_layers import RealModel, layers_in
from cachesim.engines.shared.size_formulas import (
    HEAD,
    LayerSize,
    ModelSizes,
    attention,
    delta_net,
    mamba,
    short_conv,
)
from cachesim.engines.shared.unsimulated_models import not_simulated, unsimulated
from cachesim.model.spec import parse


def _real(letters: str, sizes: tuple[LayerSize, ...], repository: str, head: int, context: int, window: int = 0,
          **more: bool | tuple[LayerSize, ...]) -> RealModel:
    """Return a model with the layers of these letters; ``sizes`` has a layer of each kind."""
    of = {size.kind: size for size in sizes}
    return RealModel(tuple(of[letter] for letter in letters), f"config.json of {repository}", window, context,
                     head=head, **more)  # type: ignore[arg-type]


def _dense(layers: int, heads: int, head: int, repository: str, context: int) -> RealModel:
    """Return a model whose layers are all attention."""
    return _real("A" * layers, (attention(heads, head, head),), repository, head, context)


_QWEN35 = attention(2, 256, 256)
_WIDE = attention(4, 256, 256)
_GPT = (attention(8, 64, 64), attention(8, 64, 64, "W"))
_SIZES: Mapping[str, RealModel] = {
    "qwen3-next": _real("GGGA" * 12, (delta_net(4, 16, 32, 128, 128), _QWEN35), "Qwen/Qwen3-Next-80B-A3B-Instruct", 256,
                        262144),
    "qwen3.5-27b": _real("GGGA" * 16, (delta_net(4, 16, 48, 128, 128), _WIDE), "Qwen/Qwen3.5-27B", 256, 262144,
                         mrope=True, heads=(_WIDE,)),
    "qwen3.5-35b-a3b": _real("GGGA" * 10, (delta_net(4, 16, 32, 128, 128), _QWEN35), "Qwen/Qwen3.5-35B-A3B", 256,
                             262144, mrope=True, heads=(_QWEN35,)),
    "gpt-oss": _real("WA" * 18, _GPT, "openai/gpt-oss-120b", 64, 131072, 128),
    "gpt-oss-20b": _real("WA" * 12, _GPT, "openai/gpt-oss-20b", 64, 131072, 128),
    "llama-3": _dense(32, 8, 128, "meta-llama/Llama-3.1-8B", 131072),
    "mistral": _dense(32, 8, 128, "mistralai/Mistral-7B-v0.3", 32768),
    "qwen3": _dense(36, 8, 128, "Qwen/Qwen3-8B", 40960),
    "qwen2.5": _dense(28, 4, 128, "Qwen/Qwen2.5-7B", 131072),
    "gemma-3": _real("WWWWWA" * 4 + "WW", (attention(1, 256, 256), attention(1, 256, 256, "W")), "google/gemma-3-1b-it",
                     256, 32768, 512),
    "gemma-4-26b-a4b": _real("WWWWWA" * 5, (attention(2, 512, 512), attention(8, 256, 256, "W")),
                             "google/gemma-4-26B-A4B-it", 256, 262144, 1024),
    "granite-4.0-h-small": _real("SSSSSASSSSSSSSSASSSSSSSSSASSSSSSSSSASSSS", (mamba(4, 8192, 128, 1),
                                 attention(8, 128, 128)), "ibm-granite/granite-4.0-h-small", 128, 131072),
    "mamba-2": _real("S" * 64, (mamba(4, 5120, 128, 1),), "state-spaces/mamba2-2.7b", HEAD, 0),
    "lfm2-1.2b": _real("CCACCACCACACACAC", (short_conv(3, 2048), attention(8, 64, 64)), "LiquidAI/LFM2-1.2B", 64,
                       128000),
}  # fmt: skip
"""Name -> the layers of the model in its config.json."""
_PLAIN = {plain(name): name for name in _SIZES}


def known_sizes() -> list[str]:
    """Return the names of models whose sizes are known without a file."""
    return list(_SIZES)


def _name_of(word: str) -> str | None:
    """Return the name of a model of ``_SIZES``, with its size or without."""
    return _PLAIN.get(plain(word.rpartition("/")[2]), find(word))


def real_model(word: str) -> RealModel:
    """Return the layers of a model given by name or by the path of a config.json or GGUF. Raise BadInput."""
    if (name := _name_of(word)) in _SIZES and name:
        return _SIZES[name]
    path = Path(word)
    if path.suffix in (".json", ".gguf"):
        return layers_in(path)
    if why := unsimulated(word):
        raise not_simulated(word, why)
    hint = f"known: {', '.join(_SIZES)}; or give the path of its config.json or GGUF"
    raise BadInput(f"unknown sizes of K/V rows and states: model {quoted(word)}", hint=hint)


def sizes_of(word: str) -> ModelSizes:
    """Return the sizes of a model given by name or by the path of a config.json or GGUF. Raise BadInput."""
    sizes, known = sizes_in(real_model(word)), MODELS.get(_name_of(word) or "")
    return sizes._replace(layers=known.layers) if known else sizes


def sizes_in(model: RealModel) -> ModelSizes:
    """Return the sizes of a model, with its layers shortened to their repeating run. If the rows differ between layers,
    the largest count."""
    rows, states = [*model.full, *model.windows], model.states
    return ModelSizes(short_notation(model), len(rows), len(states), max((one.row for one in rows), default=0),
                      max((one.state for one in states), default=0), model.source,
                      model.head if rows else HEAD)  # fmt: skip


def short_notation(model: RealModel) -> str:
    """Return the notation of a model's layers: their repeating run, cut at the most layers of a notation."""
    letters = "".join(layer.kind for layer in model.layers)
    run = re.fullmatch(r"(.+?)\1*", letters)
    short = (run[1] if run else letters)[: LAYERS.now]
    notation = " ".join(f"W{model.window}" if letter == "W" else letter for letter in short) if "W" in short else short
    parse(notation)
    return notation


__all__ = ["ModelSizes", "known_sizes", "real_model", "short_notation", "sizes_in", "sizes_of"]
