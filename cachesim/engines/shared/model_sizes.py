"""Bytes per token and per state of real models, by name or from a config.json or GGUF file.

Source: the configurations named below.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Mapping

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.base.limits import LAYERS
from cachesim.base.untrusted_files import file_stamp
from cachesim.engines.shared.known_models import MODELS, SIZE_PART, model_file, name_parts, plain
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
from cachesim.engines.shared.size_sources import CHECKED
from cachesim.model.layer_kinds import KINDS
from cachesim.model.spec import parse

_FROM = "config.json of "


def _real(letters: str, sizes: tuple[LayerSize, ...], repository: str, head: int, context: int, window: int = 0,
          **more: bool | str | tuple[LayerSize, ...]) -> RealModel:
    """Return a model with the layers of these letters; ``sizes`` has a layer of each kind."""
    of = {size.kind: size for size in sizes}
    return RealModel(tuple(of[letter] for letter in letters), _FROM + repository, window, context,
                     head=head, **more)  # type: ignore[arg-type]


def _dense(layers: int, heads: int, head: int, repository: str, context: int) -> RealModel:
    """Return a model whose layers are all attention."""
    return _real("A" * layers, (attention(heads, head, head),), repository, head, context)


def _qwen3_vl(size: str, layers: int, heads: int) -> RealModel:
    """Return a Qwen3-VL."""
    return _dense(layers, heads, 128, f"Qwen/Qwen3-VL-{size}-Instruct", 262144)._replace(mrope=True)


def _qwen35(size: str, layers: int, kv_heads: int, value_heads: int, series: str = "3.5") -> RealModel:
    """Return a model of Qwen's series 3.5, 3.6 or 3.8, whose states are always F32."""
    rows = attention(kv_heads, 256, 256)
    states = delta_net(4, 16, value_heads, 128, 128)
    return _real("GGGA" * (layers // 4), (states, rows), f"Qwen/Qwen{series}-{size}", 256, 262144,
                 mrope=True, heads=(rows,), state_type="float32")  # fmt: skip


def _nemotron(letters: str, heads: int, inner: int, repository: str, context: int) -> RealModel:
    """Return a model of NVIDIA's hybrids: layers without memory are omitted."""
    return _real(letters, (mamba(4, inner, 128, 8), attention(heads, 128, 128)), f"nvidia/{repository}", 128, context,
                 state_type="float32")  # fmt: skip


def _latent(layers: int, repository: str, context: int) -> RealModel:
    """Return a model whose layers keep a latent row of 512 numbers and a rotated one of 64."""
    return _real("A" * layers, (attention(1, 576, 0),), repository, 576, context)


def _gemma3(layers: int, heads: int, head: int, window: int, repository: str, context: int) -> RealModel:
    """Return a Gemma 3: every sixth layer has full attention."""
    sizes = (attention(heads, head, head), attention(heads, head, head, "W"))
    letters = "".join("A" if (i + 1) % 6 == 0 else "W" for i in range(layers))
    return _real(letters, sizes, f"google/{repository}", head, context, window, arch="gemma3_text")


def _gemma4(letters: str, heads: int, full_heads: int, repository: str) -> RealModel:
    """Return a Gemma 4, whose heads are wider in layers with full attention."""
    sizes = (attention(full_heads, 512, 512), attention(heads, 256, 256, "W"))
    return _real(letters, sizes, f"google/{repository}", 256, 262144, 1024)


_QWEN3_NEXT = (delta_net(4, 16, 32, 128, 128), attention(2, 256, 256))
_NANO = "SSSASSSASSSASSSASSSASSSSASSSS"
_SUPER = "SSSSASSSSASSSSASSSSSASSSSSASSSSSASSSSSASSSSASSSS"
_ULTRA = "SSSSASSSASSSSASSSSASSSASSSSASSSSASSSASSSSASSSSASSSASSSSASSSS"
_STEP = (attention(8, 128, 128), attention(8, 128, 128, "W"))
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
    "qwen3.8-27b": _qwen35("27B", 64, 4, 48, "3.8"),
    "kimi-linear": _real("GGGA" * 6 + "GGA", (kimi_delta(4, 32, 128), attention(1, 576, 0)),
                         "moonshotai/Kimi-Linear-48B-A3B-Instruct", 576, 1048576, state_type="float32"),
    "gpt-oss": _real("WA" * 18, _GPT, "openai/gpt-oss-120b", 64, 131072, 128),
    "gpt-oss-20b": _real("WA" * 12, _GPT, "openai/gpt-oss-20b", 64, 131072, 128),
    "llama-3": _dense(32, 8, 128, "meta-llama/Llama-3.1-8B", 131072),
    "llama-3.1-70b": _dense(80, 8, 128, "meta-llama/Llama-3.1-70B", 131072),
    "llama-3.1-405b": _dense(126, 8, 128, "meta-llama/Llama-3.1-405B", 131072),
    "llama-3.2-1b": _dense(16, 8, 64, "meta-llama/Llama-3.2-1B", 131072),
    "llama-3.2-3b": _dense(28, 8, 128, "meta-llama/Llama-3.2-3B", 131072),
    "mistral": _dense(32, 8, 128, "mistralai/Mistral-7B-v0.3", 32768),
    "mixtral-8x7b": _dense(32, 8, 128, "mistralai/Mixtral-8x7B-v0.1", 32768),
    "mixtral-8x22b": _dense(56, 8, 128, "mistralai/Mixtral-8x22B-v0.1", 65536),
    "qwen3": _dense(36, 8, 128, "Qwen/Qwen3-8B", 40960),
    "qwen3-0.6b": _dense(28, 8, 128, "Qwen/Qwen3-0.6B", 40960),
    "qwen3-1.7b": _dense(28, 8, 128, "Qwen/Qwen3-1.7B", 40960),
    "qwen3-4b": _dense(36, 8, 128, "Qwen/Qwen3-4B", 40960),
    "qwen3-14b": _dense(40, 8, 128, "Qwen/Qwen3-14B", 40960),
    "qwen3-32b": _dense(64, 8, 128, "Qwen/Qwen3-32B", 40960),
    "qwen3-30b-a3b": _dense(48, 4, 128, "Qwen/Qwen3-30B-A3B", 40960),
    "qwen3-235b-a22b": _dense(94, 4, 128, "Qwen/Qwen3-235B-A22B", 40960),
    "qwen3-4b-2507": _dense(36, 8, 128, "Qwen/Qwen3-4B-Instruct-2507", 262144),
    "qwen3-30b-a3b-2507": _dense(48, 4, 128, "Qwen/Qwen3-30B-A3B-Instruct-2507", 262144),
    "qwen3-235b-a22b-2507": _dense(94, 4, 128, "Qwen/Qwen3-235B-A22B-Instruct-2507", 262144),
    "qwen3-coder-480b-a35b": _dense(62, 8, 128, "Qwen/Qwen3-Coder-480B-A35B-Instruct", 262144),
    "qwen3-vl-2b": _qwen3_vl("2B", 28, 8),
    "qwen3-vl-4b": _qwen3_vl("4B", 36, 8),
    "qwen3-vl-8b": _qwen3_vl("8B", 36, 8),
    "qwen3-vl-32b": _qwen3_vl("32B", 64, 8),
    "qwen3-vl-30b-a3b": _qwen3_vl("30B-A3B", 48, 4),
    "qwen3-vl-235b-a22b": _qwen3_vl("235B-A22B", 94, 4),
    "qwen2.5": _dense(28, 4, 128, "Qwen/Qwen2.5-7B", 131072),
    "qwen2.5-7b-instruct": _dense(28, 4, 128, "Qwen/Qwen2.5-7B-Instruct", 32768),
    "glm-4.5": _dense(92, 8, 128, "zai-org/GLM-4.5", 131072),
    "glm-4.6": _dense(92, 8, 128, "zai-org/GLM-4.6", 202752),
    "minimax-m2.1": _dense(62, 8, 128, "MiniMaxAI/MiniMax-M2.1", 196608),
    "minimax-m2.5": _dense(62, 8, 128, "MiniMaxAI/MiniMax-M2.5", 196608),
    "deepseek-v3": _latent(61, "deepseek-ai/DeepSeek-V3", 163840),
    "deepseek-v3.1": _latent(61, "deepseek-ai/DeepSeek-V3.1", 163840),
    "deepseek-r1": _latent(61, "deepseek-ai/DeepSeek-R1", 163840),
    "kimi-k2-instruct": _latent(61, "moonshotai/Kimi-K2-Instruct", 131072),
    "kimi-k2.5": _latent(61, "moonshotai/Kimi-K2.5", 262144),
    "kimi-k2.6": _latent(61, "moonshotai/Kimi-K2.6", 262144),
    "kimi-k2.7-code": _latent(61, "moonshotai/Kimi-K2.7-Code", 262144),
    "gemma-3": _gemma3(26, 1, 256, 512, "gemma-3-1b-it", 32768),
    "gemma-3-270m": _gemma3(18, 1, 256, 512, "gemma-3-270m-it", 32768),
    "gemma-3-4b": _gemma3(34, 4, 256, 1024, "gemma-3-4b-it", 131072),
    "gemma-3-12b": _gemma3(48, 8, 256, 1024, "gemma-3-12b-it", 131072),
    "gemma-3-27b": _gemma3(62, 16, 128, 1024, "gemma-3-27b-it", 131072),
    "gemma-4-26b-a4b": _gemma4("WWWWWA" * 5, 8, 2, "gemma-4-26B-A4B-it"),
    "gemma-4-31b": _gemma4("WWWWWA" * 10, 16, 4, "gemma-4-31B-it"),
    "mimo-v2-flash": _real("AWWWW" + "AWWWWW" * 7 + "A", (attention(4, 192, 128), attention(8, 192, 128, "W")),
                           "XiaomiMiMo/MiMo-V2-Flash", 192, 262144, 128, arch="mimo_v2_flash"),
    "step-3.5-flash": _real("AWWW" * 11 + "A", _STEP, "stepfun-ai/Step-3.5-Flash", 128, 262144, 512, arch="step3p5"),
    "step-3.7-flash": _real("AWWW" * 11 + "A", _STEP, "stepfun-ai/Step-3.7-Flash", 128, 262144, 512, arch="step3p5"),
    "granite-4.0-h-350m": _real("SSSSSSSSSSASSASSSASSSSSSSSSASSSS", (mamba(4, 1536, 128, 1), attention(4, 64, 64)),
                                "ibm-granite/granite-4.0-h-350m", 64, 32768),
    "granite-4.0-h-small": _real("SSSSSASSSSSSSSSASSSSSSSSSASSSSSSSSSASSSS", (mamba(4, 8192, 128, 1),
                                 attention(8, 128, 128)), "ibm-granite/granite-4.0-h-small", 128, 131072),
    "nemotron-3-nano": _nemotron(_NANO, 2, 4096, "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 262144),
    "nemotron-3.5-lightning": _nemotron(_NANO, 2, 4096, "NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16", 1048576),
    "nemotron-3-super": _nemotron(_SUPER, 2, 8192, "NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 262144),
    "nemotron-3-ultra": _nemotron(_ULTRA, 2, 16384, "NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 262144),
    "nemotron-nano-9b-v2": _nemotron("SSSSSSSSASSSASSSSASSSSASSSSSSSS", 8, 10240, "NVIDIA-Nemotron-Nano-9B-v2", 131072),
    "mamba-2": _real("S" * 64, (mamba(4, 5120, 128, 1),), "state-spaces/mamba2-2.7b", HEAD, 0),
    "lfm2-1.2b": _real("CCACCACCACACACAC", (short_conv(3, 2048), attention(8, 64, 64)), "LiquidAI/LFM2-1.2B", 64,
                       128000),
    **published_models(),
}  # fmt: skip
"""Name -> the layers of the model in its config.json."""
ALIKE: Mapping[str, tuple[str, ...]] = {
    "qwen3-next": ("Qwen3-Next-80B-A3B-Thinking", "Qwen3-Next-80B-A3B"),
    "kimi-linear": ("Kimi-Linear-48B-A3B-Base", "Kimi-Linear-48B-A3B"),
    "mistral": ("Mistral-7B-Instruct-v0.3",),
    "mixtral-8x7b": ("Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
    "deepseek-v4": ("DeepSeek-V4-Flash-0731",),
    "deepseek-v3.2": ("DeepSeek-V3.2-Exp",),
    "deepseek-v3": ("DeepSeek-V3-0324",),
    "deepseek-v3.1": ("DeepSeek-V3.1-Terminus",),
    "deepseek-r1": ("DeepSeek-R1-0528",),
    "qwen3-4b-2507": ("Qwen3-4B-Thinking-2507",),
    "qwen3-30b-a3b-2507": ("Qwen3-30B-A3B-Thinking-2507",),
    "qwen3-235b-a22b-2507": ("Qwen3-235B-A22B-Thinking-2507",),
    "nemotron-3-nano": ("Nemotron-3-Nano-30B-A3B",),
    "nemotron-3.5-lightning": ("Nemotron-3.5-Lightning-30B-A3B",),
    "nemotron-3-super": ("Nemotron-3-Super-120B-A12B",),
    **{f"gemma-3-{size}": (f"gemma-3-{size}-pt",) for size in ("270m", "4b", "12b", "27b")},
    "gemma-3": ("gemma-3-1b-pt", "gemma-3-1b"),
    "gemma-4-26b-a4b": ("gemma-4-26B-A4B",),
    "gemma-4-31b": ("gemma-4-31B",),
}  # fmt: skip
"""Name -> further repositories with the sizes of this model's configuration."""
_LEADING = ("nvidia", "meta")           # begin the names of models of these organisations, too
_TAIL = re.compile(r"instruct|thinking|base|chat|it|hf|(mx|nv)?fp[48]|bf16|f16|f32|int[48]|awq|gptq|qat|gguf|ud"
                   r"|\d+bit|i?q[1-8]|tq[1-8]|w\da\d+|mtp")
"""What may follow a model's name: its variant, or the type of its weights."""
_CONTEXT = re.compile(r"\d+k")
_DATE = re.compile(r"\d{4}")            # names another release


def _without_leading(parts: list[str]) -> list[str]:
    """Return the parts of a name without those of its organisation."""
    return parts[1:] if parts[:1] and parts[0] in _LEADING else parts


def _joined(name: str) -> str:
    """Return a name without separators and without its organisation."""
    return "".join(_without_leading(name_parts(name)))


def known_sizes() -> list[str]:
    """Return the names of models whose sizes are known without a file."""
    return list(_SIZES)


def known_repository(name: str) -> str:
    """Return the repository whose config.json has the sizes of a name in ``known_sizes``."""
    return _SIZES[name].source.removeprefix(_FROM)


def size_check(name: str) -> str:
    """Return the public place where the sizes of a name in ``known_sizes`` were compared, "" if none was found."""
    return CHECKED.get(name, "")


def sized_name(word: str) -> str:
    """Return the name in ``known_sizes`` of the model that a text names, "" if the sizes of this very model are not
    known: those of another size, version or variant of its family do not count."""
    parts = _without_leading(name_parts(word))
    ends = (n for n in range(len(parts), 0, -1) if n == len(parts) or _ends_name(parts[:n], parts[n:]))
    return next((_BY_NAME[name] for n in ends if (name := "".join(parts[:n])) in _BY_NAME), "")


def names_context(word: str) -> bool:
    """True if a text names a variant of a model by its context: Qwen3-8B-128K is not trained on that of Qwen3-8B."""
    return any(_CONTEXT.fullmatch(part) for part in name_parts(word))


def _ends_name(parts: list[str], rest: list[str]) -> bool:
    """True if the name of a model may end before ``rest``: a variant or a type follows, or, if the name has a size,
    anything but another size. A date follows in the name of another release."""
    if any(_DATE.fullmatch(part) for part in rest):
        return False
    named = any(SIZE_PART.fullmatch(part) for part in parts)
    return bool(_TAIL.fullmatch(rest[0])) or (named and not any(SIZE_PART.fullmatch(part) for part in rest))


_BY_NAME = {**{_joined(other): name for name, others in ALIKE.items() for other in others},
            **{_joined(model.source): name for name, model in _SIZES.items()},
            **{plain(name): name for name in _SIZES}}  # fmt: skip
"""Name without separators, of this table or of a repository -> name in this table."""


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
    """Return the sizes of a model, with its layers shortened to their repeating run."""
    full = sum(one.row + one.index_row for one in model.full)
    window = sum(one.row + one.index_row for one in model.windows)
    states = sum(one.state for one in model.states)
    head = model.head if full or window else HEAD
    return ModelSizes(short_notation(model), full, window, states, model.source, head)


def short_notation(model: RealModel) -> str:
    """Return the notation of a model's layers: their repeating run, the last one of which may be incomplete, cut at the
    most layers of a notation."""
    names = [f"W{model.window}" if layer.kind == "W" else layer.kind + layer.numbers
             for layer in model.layers if layer.kind]  # fmt: skip
    every = len(names)
    run = next((n for n in range(1, every // 2 + 1) if all(name == names[i % n] for i, name in enumerate(names))), 0)
    short = names[: min(run or every, LAYERS.now)]
    notation = (" " if any(len(name) > 1 for name in short) else "").join(short)
    parse(notation)
    return notation


__all__ = ["ModelSizes", "known_sizes", "older_model", "real_model", "short_notation", "sized_name",
           "sizes_in", "sizes_of"]
