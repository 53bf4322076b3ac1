"""Real models by name, with the order and proportion of their layers.

A name stands for the shortest sequence of layers with the order and proportion of the real model. Token counts do not
depend on the number of repetitions; window sizes are those of the real model. Layers without memory (MLP, experts) are
omitted.
Source: the configurations of huggingface/transformers (src/transformers/models/*/configuration_*.py) and, where named,
of ml-explore/mlx-lm and ggml-org/llama.cpp.
"""

from __future__ import annotations

import re
from typing import Iterator, Mapping, NamedTuple

from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse


class KnownModel(NamedTuple):
    """A real model. ``layers``: its notation; ``real``: description of the real layers; ``source``: origin of the data;
    ``arch``: prefix for engines that know the architecture; ``also``: other names."""

    layers: str
    real: str
    source: str
    arch: str = ""
    also: tuple[str, ...] = ()


_CONFIG = "huggingface/transformers src/transformers/models/{0}/configuration_{0}.py"


def _repeated(layers: str, times: int, of: str, model: str, **more: str | tuple[str, ...]) -> KnownModel:
    """Return a model whose configuration repeats a sequence of layers ``times`` times in the variant ``of``."""
    n, window = len(parse(layers).layers), re.search(r"\d+", layers)
    real = f"1 of {times} repetitions ({of}, {n * times} layers)" + (f", real window {window[0]}" if window else "")
    return KnownModel(layers, real, _CONFIG.format(model), **more)  # type: ignore[arg-type]


def _alike(layers: str, what: str, model: str, *also: str) -> KnownModel:
    """Return a model whose layers are all of a single kind."""
    return KnownModel(layers, f"all its layers are {what}", _CONFIG.format(model), "", also)


ATTENTION = "attention"
MODELS: Mapping[str, KnownModel] = {
    "qwen3-next": _repeated("GGGA", 12, "80B-A3B", "qwen3_next", also=("qwen3-coder-next",)),
    "qwen3.5": _repeated("GGGA", 8, "9B", "qwen3_5", arch="qwen35", also=("qwen3.6",)),
    "gpt-oss": _repeated("W128 A", 18, "120b", "gpt_oss"),
    "gemma-2": _repeated("W4096 A", 13, "2b", "gemma2", also=("gemma2",)),
    "gemma-3": KnownModel(
        "W512 W512 W512 W512 W512 A", "5 windows to 1 attention, as in the model (1b), real window 512",
        "ml-explore/mlx-lm mlx_lm/models/gemma3_text.py", also=("gemma3",)),
    "gemma-4": KnownModel(
        "W1024 W1024 W1024 W1024 W1024 A", "1 of 10 repetitions (31B, 60 layers), real window 1024",
        _CONFIG.format("gemma4"), also=("gemma4",)),
    "command-a": _repeated("W4096 W4096 W4096 A", 10, "cohere2", "cohere2", also=("cohere2", "command-r7b")),
    "olmo-3": _repeated("W4096 W4096 W4096 A", 8, "7B", "olmo3", also=("olmo3",)),
    "falcon-h1": _alike("HH", "attention beside Mamba-2", "falcon_h1"),
    "granite-4": KnownModel(
        "SSSSSASS", "7 Mamba-2 to 1 attention, as in 4.0-h-350m (32 layers, attention at 10, 13, 17, 27)",
        "config.json of ibm-granite/granite-4.0-h-350m", also=("granite-4.0", "granite-4-h", "granite-4.0-h")),
    "jamba": _repeated("SSSSASSS", 4, "v0.1; its Mamba-1 layers stand as Mamba-2", "jamba"),
    "lfm2-1.2b": KnownModel(
        "CCACCACA", "5 convolutions to 3 attention, as in 1.2B (16 layers: CCACCACCACACACAC)",
        "config.json of LiquidAI/LFM2-1.2B", also=("lfm2",)),
    "mamba-2": _alike("SSSS", "Mamba-2", "mamba2", "mamba2"),
    "nemotron-h": KnownModel(
        "SSSSASS", "6 Mamba-2 to 1 attention, as in 8B (24 and 4, the first attention behind 4)",
        "config.json of nvidia/Nemotron-H-8B-Base-8K"),
    "nemotron-nano": KnownModel(
        "SSSSSSSA", "7 Mamba-2 to 1 attention, nearly as in 9B-v2 (27 and 4)",
        "config.json of nvidia/NVIDIA-Nemotron-Nano-9B-v2", also=("nvidia-nemotron-nano",)),
    "nemotron-3-nano": KnownModel(
        "SSSAS", "4 Mamba-2 to 1 attention, nearly as in 30B-A3B (23 and 6, the first attention behind 3)",
        "config.json of nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        also=("nvidia-nemotron-3-nano", "nemotron-3.5-lightning", "nvidia-nemotron-3.5-lightning")),
    "nemotron-3-super": KnownModel(
        "SSSSAS", "5 Mamba-2 to 1 attention, as in 120B-A12B (40 and 8)",
        "config.json of nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", also=("nvidia-nemotron-3-super",)),
    "llama-3": _alike("AAAA", ATTENTION, "llama", "llama3", "llama-2", "llama-3.1", "llama-3.2", "llama-3.3"),
    "qwen2.5": _alike("AAAA", ATTENTION, "qwen2", "qwen2", "qwq"),
    "qwen3": _alike("AAAA", ATTENTION, "qwen3", "qwen3-coder"),
    "mistral": _alike("AAAA", ATTENTION, "mistral", "mixtral"),
    "deepseek-v3.2": KnownModel(
        "I2048", "all 61 layers attend to the best 2048 rows", "ggml-org/llama.cpp src/models/deepseek32.cpp",
        also=("deepseek32", "deepseek-v3.2-exp")),
    "glm-5": KnownModel(
        "I2048", "all its layers attend to the best 2048 rows; those of 5.2 without an index use the choice of another",
        "ggml-org/llama.cpp src/models/glm-dsa.cpp", also=("glm-5.1", "glm-5.2", "glm-dsa")),
    "hunyuan-v4": KnownModel(
        "I2048", "all its layers attend to the best rows; read in llama.cpp, not recorded",
        "ggml-org/llama.cpp src/models/hy-v4.cpp", also=("hy-v4",)),
    "deepseek-v4": KnownModel(
        "W32 D4.32.12 D128.32 D4.32.12", "windows, and rows for 4 and for 128 tokens; numbers of the tiny model",
        "ggml-org/llama.cpp src/models/deepseek4.cpp", also=("deepseek-v4-flash", "deepseek-v4-pro")),
    "dots-3": KnownModel(
        "W32 I48 W32 I48", "windows and the best rows in turn, with the numbers of the recorded tiny model",
        "ggml-org/llama.cpp src/models/dots3note.cpp", also=("dots3",)),
    "minimax-m3": KnownModel(
        "A B4 B4 B4", "the best blocks after dense layers, with the numbers of the recorded tiny model",
        "ggml-org/llama.cpp src/models/minimax-m3.cpp"),
    "qwen3.8-flash-next": KnownModel(
        "G P48 G P48", "the best pools of rows, with the numbers of the recorded tiny model",
        "ggml-org/llama.cpp src/models/qwen4exp.cpp", arch="qwen35", also=("qwen4-exp",)),
    "phi-3": KnownModel(
        "AAAA", "all its layers are attention: its window is switched off",
        "ggml-org/llama.cpp src/models/phi3.cpp; ml-explore/mlx-lm mlx_lm/models/phi3.py", also=("phi3",)),
}
"""Name of a model -> its layers. Lookups ignore dashes, dots and case."""

OLDER: Mapping[str, KnownModel] = {
    name: model for name, model in MODELS.items()
    if not any(KINDS[layer.kind].newest for layer in parse(model.layers).layers)
}
"""Models whose kinds of layers every engine knows."""

_SIZE = re.compile(r"(\d+ )?\d+(x\d+)?[bm]|(fp8|nvfp4|awq|gptq)$")      # 80b, 8x7b, 2.7b in parts; or its type
_GAPS = re.compile(r"[-_. :]+")
_PARTS = re.compile(r"[^-_. :]+")


def plain(name: str) -> str:
    """Return a name without separators and in lower case."""
    return _GAPS.sub("", name.casefold())


def name_parts(name: str) -> list[str]:
    """Return the parts of a model's name without its organisation, in lower case: ``Qwen/Qwen3.5-4B`` has three."""
    return [part for part in _GAPS.split(name.rpartition("/")[2].casefold()) if part]


def known_names() -> Iterator[str]:
    """Yield every name of every model."""
    for name, model in MODELS.items():
        yield name
        yield from model.also


_BY_NAME = {plain(name): found for found, model in MODELS.items() for name in (found, *model.also)}


def find(text: str) -> str | None:
    """Return the table name for a model name, None if unknown: ``Qwen/Qwen3-Next-80B-A3B-Instruct`` is ``qwen3-next``.
    The rest after the table name must begin with a size."""
    text = text.rpartition("/")[2].casefold()
    parts = [part for part in _PARTS.finditer(text) if not (part[0] == "meta" and text.startswith("meta-llama"))]
    for n in range(len(parts), 0, -1):
        name = "".join(part[0] for part in parts[:n])
        rest = [part[0] for part in parts[n:]]
        # a dot continues a version: Qwen3.8-27B is not Qwen3 with 8.27 billion parameters
        ends = not rest or (text[parts[n].start() - 1] != "." and _SIZE.match(" ".join(rest)))
        if name in _BY_NAME and ends:
            return _BY_NAME[name]
    return None
