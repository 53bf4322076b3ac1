"""Real models by name, with the order and proportion of their layers.

A name stands for the shortest sequence of layers with the order and proportion of the real model. Token counts do not
depend on the number of repetitions; window sizes are those of the real model. Layers without memory (MLP, experts) are
omitted.
Source: the configurations of huggingface/transformers (src/transformers/models/*/configuration_*.py) and, where named,
of ml-explore/mlx-lm and ggml-org/llama.cpp.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.untrusted_files import FILE, kind
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse


class KnownModel(NamedTuple):
    """A real model. ``layers``: its notation; ``real``: description of the real layers; ``source``: origin of the data;
    ``arch``: prefix for engines that know the architecture; ``also``: other names; ``sizes``: sizes of the family whose
    configuration has these layers, () = all of them; ``unverified``: names whose own configuration was not found in
    public, so that the layers are those of the family."""

    layers: str
    real: str
    source: str
    arch: str = ""
    also: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()

    def has_size(self, parts: Sequence[str]) -> bool:
        """True if a name that goes on with these parts names no size, or one of ``sizes``."""
        named = {part for part in parts if SIZE_PART.fullmatch(part)}
        return not (self.sizes and named) or any(named <= {*_GAPS.split(size)} for size in self.sizes)


SIZE_PART = re.compile(r"[ae]?\d+(x\d+)?[bmt]")
"""Part of a model's name that is a size: 35b, a3b, e4b, 8x7b, 350m."""
_GAPS = re.compile(r"[-_. :]+")
_CONFIG = "huggingface/transformers src/transformers/models/{0}/configuration_{0}.py"

_GEMMA3 = "huggingface/transformers src/transformers/models/gemma3/convert_gemma3_weights.py"
_GEMMA4 = "huggingface/transformers src/transformers/models/gemma4/convert_gemma4_weights.py, gemma4_unified"


def _repeated(layers: str, times: int, of: str, model: str, **more: str | tuple[str, ...]) -> KnownModel:
    """Return a model whose configuration repeats a sequence of layers ``times`` times in the variant ``of``."""
    n, window = len(parse(layers).layers), re.search(r"\d+", layers)
    real = f"1 of {times} repetitions ({of}, {n * times} layers)" + (f", real window {window[0]}" if window else "")
    return KnownModel(layers, real, _CONFIG.format(model), **more)  # type: ignore[arg-type]


def _alike(layers: str, what: str, model: str, *also: str) -> KnownModel:
    """Return a model whose layers are all of a single kind."""
    return KnownModel(layers, f"all its layers are {what}", source=_CONFIG.format(model), arch="", also=also)


ATTENTION = "attention"
MODELS: Mapping[str, KnownModel] = {
    "qwen3-next": _repeated(
        "GGGA", 12, "80B-A3B", "qwen3_next", also=("qwen3-coder-next",), unverified=("qwen3-coder-next",)),
    "qwen3.5": _repeated("GGGA", 8, "9B", "qwen3_5", arch="qwen35", also=("qwen3.6",)),
    "qwen3.8": KnownModel(
        "GGGA", "1 of 16 repetitions (27B, 64 layers; 2.4T-A95B alike)",
        "vllm-project/recipes#805; lablup/mlxcel#1163; NVIDIA/TensorRT-LLM#18387", arch="qwen35"),
    "gpt-oss": _repeated("W128 A", 18, "120b", "gpt_oss", sizes=("20b", "120b")),
    "gemma-2": _repeated("W4096 A", 13, "2b", "gemma2", also=("gemma2",), sizes=("2b", "9b", "27b")),
    "gemma-3": KnownModel(
        "W512 W512 W512 W512 W512 A", "5 windows to 1 attention, as in 1b and 270m, real window 512",
        _GEMMA3, also=("gemma3",), sizes=("270m", "1b")),
    "gemma-3-4b": KnownModel(
        "W1024 W1024 W1024 W1024 W1024 A", "5 windows to 1 attention, as in 4b, 12b and 27b, real window 1024",
        _GEMMA3, also=("gemma-3-12b", "gemma-3-27b", "translategemma"), unverified=("translategemma",)),
    "gemma-3n": KnownModel(
        "W512 W512 W512 W512 A", "4 windows to 1 attention, as in E4B, real window 512; its last layers, which reuse "
        "the rows of earlier ones, are left out", _CONFIG.format("gemma3n"), also=("gemma3n",), sizes=("e2b", "e4b")),
    "gemma-4": KnownModel(
        "W1024 W1024 W1024 W1024 W1024 A", "1 of 10 repetitions (31B, 60 layers; 26B-A4B and 12B alike), real window "
        "1024", _GEMMA4, also=("gemma4",), sizes=("31b", "26b-a4b", "12b")),
    "gemma-4-e2b": KnownModel(
        "W512 W512 W512 W512 A", "4 windows to 1 attention, real window 512; its last 20 of 35 layers, which reuse the "
        "rows of earlier ones, are left out", _GEMMA4),
    "gemma-4-e4b": KnownModel(
        "W512 W512 W512 W512 W512 A", "5 windows to 1 attention, real window 512; its last 18 of 42 layers, which "
        "reuse the rows of earlier ones, are left out", _GEMMA4),
    "llama-4": KnownModel(
        "K8192 K8192 K8192 A", "1 of 12 repetitions (Scout and Maverick, 48 layers), real chunks of 8192",
        _CONFIG.format("llama4"), also=("llama4", "llama-4-scout", "llama-4-maverick")),
    "command-a": _repeated("W4096 W4096 W4096 A", 10, "cohere2", "cohere2", also=("cohere2", "command-r7b")),
    "olmo-3": _repeated("W4096 W4096 W4096 A", 8, "7B", "olmo3", also=("olmo3",), sizes=("7b", "32b")),
    "exaone-4": _repeated("W4096 W4096 W4096 A", 16, "32B", "exaone4", also=("exaone-4.0",), sizes=("32b",)),
    "mimo-v2-flash": KnownModel(
        "A W128 W128 W128 W128 W128", "5 windows to 1 attention (48 layers: 39 and 9), real window 128",
        _CONFIG.format("mimo_v2_flash")),
    "step-3.5-flash": KnownModel(
        "A W512 W512 W512", "3 windows to 1 attention (45 layers: 33 and 12), real window 512",
        _CONFIG.format("step3p7"), also=("step-3.7-flash",)),
    "falcon-h1": _alike("HH", "attention beside Mamba-2", "falcon_h1"),
    "granite-4": KnownModel(
        "SSSSSASS", "7 Mamba-2 to 1 attention, as in 4.0-h-350m (32 layers, attention at 10, 13, 17, 27)",
        "config.json of ibm-granite/granite-4.0-h-350m", also=("granite-4.0", "granite-4-h", "granite-4.0-h"),
        unverified=("granite-4", "granite-4.0", "granite-4-h", "granite-4.0-h")),
    "jamba": _repeated(
        "SSSSASSS", 4, "v0.1; its Mamba-1 layers stand as Mamba-2", "jamba",
        also=("ai21-jamba", "jamba-mini", "ai21-jamba-mini"), unverified=("jamba-mini", "ai21-jamba-mini")),
    "lfm2-1.2b": KnownModel(
        "CCACCACA", "5 convolutions to 3 attention, as in 1.2B (16 layers: CCACCACCACACACAC)",
        "config.json of LiquidAI/LFM2-1.2B", also=("lfm2", "lfm2.5", "lfm2-vl", "lfm2.5-vl"),
        unverified=("lfm2.5", "lfm2-vl", "lfm2.5-vl")),
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
    "nemotron-3-ultra": KnownModel(
        "SSSSA", "4 Mamba-2 to 1 attention, as in 550B-A55B (48 and 12, the first attention behind 4)",
        "config.json of nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", also=("nvidia-nemotron-3-ultra",)),
    "llama-3": _alike(
        "AAAA", ATTENTION, "llama", "llama3", "llama-2", "llama-3.1", "llama-3.2", "llama-3.3", "tinyllama"),
    "qwen2.5": _alike("AAAA", ATTENTION, "qwen2", "qwen2", "qwq", "qwen2.5-coder"),
    "qwen2.5-vl": _alike("AAAA", ATTENTION, "qwen2_5_vl", "qwen2-vl"),
    "qwen3": _alike("AAAA", ATTENTION, "qwen3", "qwen3-coder", "qwen3guard-gen"),
    "qwen3-vl": _alike("AAAA", ATTENTION, "qwen3_vl", "qwen3-omni"),
    "mistral": _alike("AAAA", ATTENTION, "mistral", "mixtral"),
    "mistral-7b-v0.1": KnownModel(
        "AAAA", "all its layers are attention: its window of 4096 is not used", _CONFIG.format("mistral"),
        also=("mistral-7b-instruct-v0.1",)),
    "mistral-small": _alike(
        "AAAA", ATTENTION, "mistral3", "mistral-small-3.1", "mistral-small-3.2", "devstral-small", "devstral-small-2",
        "devstral-2", "ministral-3", "magistral-small"),
    "mistral-small-4": _alike("AAAA", "attention with latent rows", "mistral4"),
    "mistral-large-3": KnownModel(
        "AAAA", "all its layers are attention with latent rows",
        "vllm-project/vllm vllm/model_executor/models/mistral_large_3.py"),
    "glm-4": _alike("AAAA", ATTENTION, "glm4", "glm-4.1v", "glm-4.5v", "glyph"),
    "glm-ocr": _alike("AAAA", ATTENTION, "glm_ocr"),
    "internvl-3": _alike("AAAA", ATTENTION, "internvl", "internvl3", "internvl-3.5", "internvl3-5"),
    "intern-s1": KnownModel(
        "AAAA", "all layers of its language model are attention", "vllm-project/vllm "
        "vllm/model_executor/models/interns1.py", also=("intern-s1-mini",)),
    "ling-2.0": KnownModel(
        "AAAA", "all its layers are attention", "sgl-project/sglang python/sglang/srt/configs/bailing_moe_v2.py",
        also=("ling-1t", "ring-1t", "ling-flash-2.0", "ling-mini-2.0", "ring-flash-2.0", "ring-mini-2.0")),
    "glm-4.5": _alike(
        "AAAA", ATTENTION, "glm4_moe", "glm-4.6", "glm-4.7", "glm-4.5-air", "glm-4.6v", "glm-4.6v-flash"),
    "glm-4.7-flash": _alike("AAAA", ATTENTION, "glm4_moe_lite"),
    "deepseek-v3": _alike(
        "AAAA", ATTENTION, "deepseek_v3", "deepseek-v3.1", "deepseek-v3.1-terminus", "deepseek-r1", "kimi-k2",
        "kimi-k2-thinking", "kimi-k2.5",
        "kimi-k2.6", "kimi-k2.7-code"),
    "deepseek-v2": _alike(
        "AAAA", "attention with latent rows", "deepseek_v2", "deepseek-v2-lite", "deepseek-v2.5", "deepseek-coder-v2",
        "deepseek-coder-v2-lite"),
    "deepseek-r1-distill-qwen": _alike("AAAA", ATTENTION, "qwen2", "deepseek-r1-0528-qwen3"),
    "deepseek-r1-distill-llama": _alike("AAAA", ATTENTION, "llama"),
    "longcat-flash": _alike("AAAA", "attention with latent rows", "longcat_flash"),
    "smollm3": _alike("AAAA", ATTENTION, "smollm3"),
    "granite-3.3": _alike("AAAA", ATTENTION, "granite", "granite-3.0", "granite-3.1", "granite-3.2"),
    "minimax-m2": _alike("AAAA", ATTENTION, "minimax_m2", "minimax-m2.1", "minimax-m2.5", "minimax-m2.7"),
    "ernie-4.5": _alike("AAAA", ATTENTION, "ernie4_5_moe"),
    "ernie-4.5-vl": _alike("AAAA", ATTENTION, "ernie4_5_vl_moe"),
    "hunyuan": _alike("AAAA", ATTENTION, "hunyuan_v1_dense"),
    "hunyuan-a13b": _alike("AAAA", ATTENTION, "hunyuan_v1_moe"),
    "seed-oss": _alike("AAAA", ATTENTION, "seed_oss"),
    "kimi-linear": KnownModel(
        "GGGA", "3 layers of Kimi's delta attention, which stands as G, to 1 attention, as in 48B-A3B",
        "config.json of moonshotai/Kimi-Linear-48B-A3B-Instruct"),
    "deepseek-v3.2": KnownModel(
        "I2048", "all 61 layers attend to the best 2048 rows", "ggml-org/llama.cpp src/models/deepseek32.cpp",
        also=("deepseek32", "deepseek-v3.2-exp", "deepseek-math-v2"), unverified=("deepseek-math-v2",)),
    "glm-5": KnownModel(
        "I2048", "all its 78 layers attend to the best 2048 rows", "ggml-org/llama.cpp src/models/glm-dsa.cpp",
        also=("glm-5.1", "glm-dsa")),
    "glm-5.2": KnownModel(
        "I2048 A A A", "21 of its 78 layers have an index; the others use its choice and stand as attention",
        "ggml-org/llama.cpp src/models/glm-dsa.cpp", also=("glm-5.3",), unverified=("glm-5.3",)),
    "glm-5-next": KnownModel(
        "G G G P2048", "Kimi's delta attention, which stands as G, and the best pools of 4 rows; read, not recorded",
        "ggml-org/llama.cpp src/models/glm5-next.cpp", also=("glm-5.3-flash",)),
    "hunyuan-v4": KnownModel(
        "I2048 A A A", "9 of its 34 layers have an index; the others use its choice and stand as attention; read in "
        "llama.cpp, not recorded", "ggml-org/llama.cpp src/models/hy-v4.cpp", also=("hy-v4", "hy4-preview")),
    "deepseek-v4": KnownModel(
        "W128 D4.128.512 D128.128", "V4-Flash: 2 window layers, then rows for 4 and for 128 tokens in turn",
        "ggml-org/llama.cpp src/models/deepseek4.cpp", also=("deepseek-v4-flash",)),
    "deepseek-v4-pro": KnownModel(
        "D128.128 D4.128.1024", "windows of 128, and rows for 128 and for 4 tokens in turn",
        "ggml-org/llama.cpp src/models/deepseek4.cpp"),
    "dots-3": KnownModel(
        "I2048 W513 W513 W513", "13 layers with an index and 33 windows of 513 (preview)",
        "ggml-org/llama.cpp src/models/dots3note.cpp", also=("dots3", "dots-3-note", "dots3-note-prev")),
    "minimax-m3": KnownModel(
        "A B128 B128 B128", "3 dense layers, then 57 that choose 2048 rows, here 128 blocks of 16 instead of 16 of 128",
        "ggml-org/llama.cpp src/models/minimax-m3.cpp"),
    "qwen3.8-flash-next": KnownModel(
        "G G G P2048", "1 of 12 repetitions: the best pools of 4 rows",
        "ggml-org/llama.cpp src/models/qwen4exp.cpp", arch="qwen35", also=("qwen4-exp",)),
    "phi-3": KnownModel(
        "AAAA", "all its layers are attention: its window is switched off",
        "ggml-org/llama.cpp src/models/phi3.cpp; ml-explore/mlx-lm mlx_lm/models/phi3.py",
        also=("phi3", "phi-4", "phi4", "phi-4-mini", "phi-4-reasoning", "phi-4-multimodal")),
}
"""Name of a model -> its layers. Lookups ignore dashes, dots and case."""

OLDER: Mapping[str, KnownModel] = {
    name: model for name, model in MODELS.items()
    if not any(KINDS[layer.kind].newest for layer in parse(model.layers).layers)
}
"""Models whose kinds of layers every engine knows."""

_SIZE = re.compile(r"""
    (\d+[ ])? \d+ (x\d+)? [bmt]                                                # 80b, 8x7b, 2.7b in parts
    | (instruct|thinking|base|chat|it)\b | \d{4}\b                                                    # its variant
    | e\d+b | (fp[48]|nvfp4|mxfp[48]|awq|gptq|[48]bit|gguf|ud|b?f16|f32)\b | (i?q|tq)[1-8](\b|_)    # its type
""", re.VERBOSE)
"""Beginning of what follows a model's name: its size, its variant, or the type of its weights."""
_PUBLISHER = re.compile(r"(google|qwen|nvidia|mistralai|openai|zai-org|ibm-granite|moonshotai|minimaxai|deepseek-ai)_")
"""Publisher before a model's name, as uploaders of converted models write it."""
_FILE_END = re.compile(r"(-\d{5}-of-\d{5})?\.gguf$")
"""End of a model file's name: the number of a part, and the kind of file."""
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
    The rest after the table name must begin with a size, and the model must have the layers of the table in it."""
    return _BY_NAME.get(_table_name(text))


def is_unverified(text: str) -> bool:
    """True if the configuration of the model that a text names was not found in public: it has the layers of its
    family."""
    name = _table_name(text)
    return name in _BY_NAME and name in map(plain, MODELS[_BY_NAME[name]].unverified)


def _table_name(text: str) -> str:
    """Return the longest name of the table that a model name begins with, without separators; "" for none."""
    text = _PUBLISHER.sub("", _FILE_END.sub("", text.rpartition("/")[2].casefold()), count=1)
    parts = [part for part in _PARTS.finditer(text) if not (part[0] == "meta" and text.startswith("meta-llama"))]
    for n in range(len(parts), 0, -1):
        name = "".join(part[0] for part in parts[:n])
        rest = [part[0] for part in parts[n:]]
        # a dot continues a version: Qwen3.8-27B is not Qwen3 with 8.27 billion parameters
        ends = not rest or (text[parts[n].start() - 1] != "." and _SIZE.match(" ".join(rest)))
        if name in _BY_NAME and ends and MODELS[_BY_NAME[name]].has_size(rest):
            return name
    return ""


def model_file(word: str) -> str:
    """Return the path of the config.json or GGUF that a text names, also by its folder; "" for any other text."""
    if word.endswith((".json", ".gguf")):
        return word
    config = Path(word) / "config.json"
    return str(config) if os.sep in word and kind(config) == FILE else ""
