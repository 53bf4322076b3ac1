"""Tiny random-weight GGUF models for the layers of a notation, which a real server loads.

    python -m cachesim.tools.live.llama_server.gguf_models 'W8 A' tiny-W8A.gguf

K/V rows and recurrent states have the sizes that the engines' memories declare for the notation, so that byte limits
evict equally.
Source: llama.cpp src/models/*.cpp load_arch_hparams and load_arch_tensors, src/llama-model.cpp create_memory (b11549).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.shared.vocab import PIECES, SPECIAL
from cachesim.model import Layer, Spec
from cachesim.model.spec import TRAINED_ON
from cachesim.tools.live.llama_server import gguf_tensors as t
from cachesim.tools.live.llama_server.gguf_newest import (
    COMPRESSED,
    NEWEST,
    newest_keys,
    newest_layer,
    newest_outer,
    with_n_grams,
)
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel

# Keys of a tiny GGUF: sizes, the pattern of its layers, and the vocabulary of the recorded models.
#
# Source: GGUFs of the recorded models; llama.cpp src/models/*.cpp load_arch_hparams (b11549).

TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- set c = message['content'] if message['content'] is string else '' -%}"
    "{%- if message['role'] == 'assistant' and '</think>' in c and not loop.last -%}"
    "{%- set c = c.split('</think>')[-1] -%}{%- endif -%}"
    "{{- '<|im_start|>' + message['role'] + '\n' + c + '<|im_end|>\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""Chat template of the recorded models, which removes the thinking of earlier answers."""


def sizes(arch: str, spec: Spec, head: int) -> dict[str, Any]:
    """Return the keys that every architecture reads; ``head``: width of an attention head."""
    attends = arch != "mamba2"
    return {
        "context_length": TRAINED_ON,
        "embedding_length": t.EMBD,
        "block_count": len(spec.layers) + spec.mtp,
        "feed_forward_length": t.FF * attends,
        "attention.head_count": t.HEADS * attends,
        "attention.head_count_kv": t.KV_HEADS * attends,
        "attention.key_length": head * attends,
        "attention.value_length": head * attends,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": head * attends,
        "rope.freq_base": 10000.0,
        "vocab_size": len(PIECES),
    }


def special(arch: str, spec: Spec, delta: t.DeltaNetSizes = t.NARROW) -> dict[str, Any]:
    """Return the keys specific to this architecture."""
    layers, out = spec.layers, dict[str, Any]()
    states = [not layer.part for layer in layers]
    if arch in ("mamba2", "granitehybrid", "falcon-h1"):
        out |= _ssm(t.TAPS, t.SSM_INNER, t.SSM_STATE, t.SSM_HEADS, 1)
    if arch in ("granitehybrid", "lfm2"):
        out["attention.head_count_kv"] = [0 if state else t.KV_HEADS for state in states]
    if arch == "lfm2":
        out["shortconv.l_cache"] = t.CONV_TAPS
    if arch in ("qwen3next", "qwen35", "qwen4exp"):
        out |= _ssm(t.TAPS, delta.inner, delta.width, delta.heads, delta.keys)
        out |= _pattern("full_attention_interval", "attention.recurrent_layers", states, spec.mtp)
    if arch == "qwen3next":
        out |= {"expert_count": t.EXPERTS, "expert_used_count": t.EXPERTS}
        out |= {"expert_feed_forward_length": t.EXPERT_FF, "expert_shared_feed_forward_length": t.EXPERT_FF}
    if arch in ("qwen35", "qwen2vl"):
        out["rope.dimension_sections"] = [4, 2, 2, 0]
    if arch in NEWEST_ARCHITECTURES:
        out |= newest_keys(arch, layers)
    if spec.mtp:
        out["nextn_predict_layers"] = 1
    windows = [layer.window > 0 for layer in layers]
    if any(windows):
        out["attention.sliding_window"] = max(layer.window for layer in layers)
    if arch == "gemma3":
        pattern = "attention.sliding_window_pattern"
        out |= {pattern: 0} if all(windows) else _pattern(pattern, pattern, windows)
    return out


def _ssm(taps: int, inner: int, state: int, heads: int, groups: int) -> dict[str, Any]:
    return {"ssm.conv_kernel": taps, "ssm.inner_size": inner, "ssm.state_size": state,
            "ssm.time_step_rank": heads, "ssm.group_count": groups}  # fmt: skip


def _pattern(period: str, each: str, marked: list[bool], more: bool = False) -> dict[str, Any]:
    """Return the key for layers of a kind: a period whose last layer is not of the kind, which every build reads, or a
    list of layers. Before b11063 gemma3 ignores the list and assumes a period of 6, which is another model."""
    n = marked.index(False) + 1
    if all(mark == ((i + 1) % n != 0) for i, mark in enumerate(marked)):
        return {period: n}
    return {each: [int(mark) for mark in marked] + [0] * more}


def vocabulary() -> dict[str, Any]:
    """Return the vocabulary of the recorded models, and their chat template."""
    byte = {" ": "Ġ", "\n": "Ċ"}
    marks = {token for token, text in SPECIAL.items() if text.startswith("<|")}
    plain = min(SPECIAL)
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [byte.get(piece, piece) for piece in PIECES],
        "tokenizer.ggml.token_type": [3 if i in marks else 1 if i < plain else 4 for i in range(len(PIECES))],
        "tokenizer.ggml.merges": ["Ġ Ġ"],
        "tokenizer.ggml.eos_token_id": 96,
        "tokenizer.ggml.eot_token_id": 98,
        "tokenizer.ggml.padding_token_id": 96,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


ARCHITECTURES = (
    ("llama", "A", "A"),
    ("gemma3", "W", "WA"),
    ("mamba2", "S", "S"),
    ("granitehybrid", "SA", "SA"),
    ("qwen3next", "GA", "GA"),
    ("lfm2", "CA", "CA"),
    ("lfm2", "CW", "CW"),
    ("falcon-h1", "H", "H"),
    *NEWEST,
)
"""Architecture, kinds of layers that it requires, and kinds that it allows."""
NEWEST_ARCHITECTURES = frozenset(arch for arch, _, _ in NEWEST)
NO_ARCHITECTURE = "llama.cpp has no architecture with the layers '{}': {}"


class GgufModel(NamedTuple):
    """A model to write: the architecture, its layers, and its name for ``model_kind``. ``delta``: sizes of its gated
    delta nets; ``head``: width of an attention head."""

    arch: str
    spec: Spec
    name: str
    delta: t.DeltaNetSizes = t.NARROW
    head: int = t.HEAD

    @property
    def file(self) -> str:
        """Name of its file, by which a recorded trace identifies the model."""
        return f"tiny-{self.name.replace('/', '_')}.gguf"


def find_model(notation: str) -> GgufModel:
    """Return the model for a notation. Raise BadInput if llama.cpp has no such architecture, or if none is written.

    Gated delta nets use plain positions (qwen3next), unless an MTP head follows or ``qwen35-`` precedes the layers:
    then they use M-RoPE (qwen35), which a context shift cannot move. ``qwen2vl`` is attention with M-RoPE.
    """
    kind = model_kind(notation)
    if notation == "qwen2vl":
        return GgufModel(notation, kind.spec, notation)
    arch = _architecture(kind.spec, kind.mrope)
    layers = kind.spec.notation.replace(" ", "")
    return GgufModel(arch, kind.spec, f"qwen35-{layers}" if arch in ("qwen35", "qwen4exp") else layers)


def _architecture(spec: Spec, mrope: bool) -> str:
    kinds = {layer.kind for layer in spec.layers}
    windows = {layer.window for layer in spec.layers} - {0}

    def refuse(why: str) -> BadInput:
        return BadInput(NO_ARCHITECTURE.format(spec.notation, why))

    if "B" in kinds:
        raise BadInput(f"no tiny model with chosen blocks is written here: '{spec.notation}'",
                       hint="llama.cpp chooses blocks with flash attention only; comparisons run without")  # fmt: skip
    if len(windows) > 1:
        raise refuse("all windows of a model must have one width")
    if any(len({getattr(layer, name) for layer in spec.layers} - {0}) > 1 for name in ("count", "ratio")):
        raise refuse("all layers of a model must choose the same number of rows")
    if kinds == {"G", "P"} and not mrope:
        raise BadInput(f"a model with pooled index rows is written here with 2-D positions only: '{spec.notation}'",
                       hint=f"qwen35-{spec.notation.replace(' ', '')}")  # fmt: skip
    if spec.mtp and kinds != {"G", "A"}:
        raise refuse("MTP heads and M-RoPE need both G and A")
    if mrope and kinds not in ({"G", "A"}, {"G", "P"}):
        raise refuse("qwen35 needs both G and A")
    if any(layer.ratio not in (0, COMPRESSED) for layer in spec.layers):
        raise refuse(f"a compressed row written here has {COMPRESSED} tokens")
    for arch, needs, may in ARCHITECTURES:
        if set(needs) <= kinds <= set(may):
            return "qwen35" if arch == "qwen3next" and (spec.mtp or mrope) else arch
    if kinds in ({"C"}, {"G"}):
        raise refuse(f"a model with {min(kinds)} also has an attention cache, even without rows: add an A")
    raise refuse("H must stand alone, windows need A or C alone, and S, C, G need A")


def write_model(notation: str, path: Path) -> str:
    """Write the model; return its architecture. The bytes depend only on the notation. Raise BadInput if llama.cpp has
    no such architecture."""
    model = find_model(notation)
    tiny_model(model).write(str(path))
    return model.arch


def _keys(model: GgufModel) -> dict[str, Any]:
    """Return all keys of a model, in file order."""
    general = {"architecture": model.arch, "name": f"tiny-{model.name}",
               "description": "random weights; for tests of cache logic only", "file_type": 0}  # fmt: skip
    own = {**sizes(model.arch, model.spec, model.head), **special(model.arch, model.spec, model.delta)}
    named = {"general": general, model.arch: own}
    return {**{f"{part}.{key}": value for part, keys in named.items() for key, value in keys.items()}, **vocabulary()}


EACH_LAYER = 11063          # first build known to read a window per layer of gemma3; b10809 does not
ANY_PERIOD = 8238           # first build that reads the period of gemma3's windows (#19802); it was PERIOD
PERIOD = 6


def check_build(file: Path, commit: str) -> None:
    """Raise BadInput if a build is known to load another model from a file written here: non-periodic windows of gemma3
    are written per layer, which builds before b11063 ignore in favour of a period of 6, and builds before b8238 assume
    that period for every file. Files and builds with other names are accepted.
    Source: llama.cpp src/models/gemma3.cpp load_arch_hparams (b10809, b11063), src/llama-model.cpp (b8156)."""
    number = re.fullmatch(r"b(\d+)", commit)
    try:
        model = find_model(file.stem.removeprefix("tiny-"))
    except BadInput:
        return
    if model.arch != "gemma3" or number is None:
        return
    cause = f"{commit} reads the windows of {quoted(model.spec.notation)} as another model's"
    windows = [layer.window > 0 for layer in model.spec.layers]
    if int(number[1]) < ANY_PERIOD and windows != [place % PERIOD > 0 for place in range(1, len(windows) + 1)]:
        hint = f"use 'W8 W8 W8 W8 W8 A', or a build from b{ANY_PERIOD} on"
        raise BadInput(cause, file=str(file), hint=hint)
    layers = special(model.arch, model.spec).get("attention.sliding_window_pattern")
    if int(number[1]) < EACH_LAYER and isinstance(layers, list):
        hint = f"use periodic windows, such as 'W8 A' or 'W8 W8 A', or a build from b{EACH_LAYER} on"
        raise BadInput(cause, file=str(file), hint=hint)


def tiny_model(model: GgufModel) -> TinyModel:
    """Return a model's keys, and its tensors by kind of layer; an MTP head is a layer of kind "M", and the layer with
    n-gram embeddings of kind "N"."""
    arch, layers = model.arch, model.spec.layers
    embedding = 0.125 if arch == "gemma3" else 1.0                 # gemma3 multiplies it by the root of its width
    outer = t.outer(embedding, "token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight")
    if arch in NEWEST_ARCHITECTURES:
        outer = newest_outer(arch)
    damping = t.DAMPED if model.spec.mtp else t.OutputDamping()
    kinds = {layer.kind: list(_layer(model, layer, damping.trunk)) for layer in layers}
    order = "".join(layer.kind for layer in layers)
    if arch == "qwen4exp":
        kinds["N"] = with_n_grams(kinds["G"])
        order = order.replace("G", "N", 1)
    if model.spec.mtp:
        kinds["M"] = [*_norms(arch), *t.mtp_head(damping.head)]
        order += "M"
    return TinyModel(_keys(model), outer, kinds, order)


def _layer(model: GgufModel, layer: Layer, damping: float) -> Iterator[Tensor]:
    arch = model.arch
    if arch in NEWEST_ARCHITECTURES:
        yield from newest_layer(arch, layer)
        return
    yield from _norms(arch)
    qwen = arch in ("qwen3next", "qwen35")
    if layer.kind == "G":
        yield from t.delta_net(damping, model.delta, joint=arch == "qwen3next")
    if layer.kind in "SH":
        yield from t.ssm()
    if layer.kind == "C":
        yield from t.short_convolution()
    if layer.part:
        normed = qwen or arch in ("gemma3", "lfm2")
        yield from t.attention(damping, model.head, gated=qwen, normed=normed, biased=arch == "qwen2vl")
    if arch == "qwen3next":
        yield from t.experts()
    elif arch != "mamba2":
        yield from t.feed_forward(damping)


def _norms(arch: str) -> Iterator[Tensor]:
    """Yield the norms between the parts of a layer."""
    between = {
        "mamba2": (),
        "qwen35": ("post_attention_norm.weight",),
        "qwen3next": ("post_attention_norm.weight",),
        "gemma3": ("post_attention_norm.weight", "ffn_norm.weight", "post_ffw_norm.weight"),
        "falcon-h1": ("ffn_norm",),
    }.get(arch, ("ffn_norm.weight",))
    yield from (Tensor(name, (t.EMBD,), 0.1, 1.0) for name in ("attn_norm.weight", *between))


if __name__ == "__main__":
    try:
        write_model(sys.argv[1], Path(sys.argv[2]))
    except IndexError:
        sys.exit("python -m cachesim.tools.live.llama_server.gguf_models NOTATION FILE")
    except BadInput as bad:
        sys.exit(str(bad))
