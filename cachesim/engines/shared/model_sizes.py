"""How many bytes does a real model keep for each token, and for each state? By name, or from its config.json or GGUF.

Source: the configurations named below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Mapping

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.known_models import MODELS, find
from cachesim.engines.shared.model_files import sizes_in
from cachesim.engines.shared.size_formulas import F32, HEAD, ModelSizes, attention_row, delta_state, mamba_state

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
"""Name -> layers with K/V rows, layers with a state, bytes of a row, bytes of a state, whose config.json that is from,
width of a head."""


def known_sizes() -> list[str]:
    """Names of models whose sizes are known without a file."""
    return list(_SIZES)


def sizes_of(word: str) -> ModelSizes:
    """The sizes of the model that a word means: a name, or the path of a config.json or a GGUF. Raises BadInput."""
    name = find(word)
    if name is not None and name in _SIZES:
        attention, recurrent, row, state, repository, head = _SIZES[name]
        source = f"config.json of {repository}"
        return ModelSizes(MODELS[name].layers, attention, recurrent, row, state, source, head)
    path = Path(word)
    if path.suffix in (".json", ".gguf"):
        return sizes_in(path)
    hint = f"known: {', '.join(_SIZES)}; or the path of its config.json or GGUF"
    raise BadInput(f"the sizes of model {quoted(word)} are not known", hint=hint)


__all__ = ["ModelSizes", "known_sizes", "sizes_of"]
