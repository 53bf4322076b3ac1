"""Which GGUF is a model of our notation? Writes tiny random-weight models that a real server loads.

    python -m cachesim.tools.live.llama_server.gguf_models 'W8 A' tiny-W8A.gguf

Sizes of K/V rows and of recurrent states are those that the engines' memories declare for the notation, so that byte
limits evict the same.
Source: llama.cpp src/models/*.cpp load_arch_hparams and load_arch_tensors, src/llama-model.cpp create_memory (b11549).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.llama_cpp.memory.model_layout import MROPE, model_kind
from cachesim.engines.shared.vocab import PIECES, SPECIAL
from cachesim.model import Layer, Spec
from cachesim.model.spec import TRAINED_ON
from cachesim.tools.live.llama_server import gguf_tensors as t
from cachesim.tools.live.llama_server.tiny_gguf import Tensor, TinyModel

# Which keys does a tiny GGUF have? Sizes, the pattern of its layers, and the vocabulary of the recorded models.
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
"""The chat template of the recorded models: an earlier answer loses its thinking."""


def sizes(arch: str, spec: Spec, head: int) -> dict[str, Any]:
    """Keys that every architecture reads; ``head``: width of an attention head."""
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


def special(arch: str, spec: Spec, delta: t.Delta = t.NARROW) -> dict[str, Any]:
    """Keys of this architecture."""
    layers, out = spec.layers, dict[str, Any]()
    states = [not layer.part for layer in layers]
    if arch in ("mamba2", "granitehybrid", "falcon-h1"):
        out |= _ssm(t.TAPS, t.SSM_INNER, t.SSM_STATE, t.SSM_HEADS, 1)
    if arch in ("granitehybrid", "lfm2"):
        out["attention.head_count_kv"] = [0 if state else t.KV_HEADS for state in states]
    if arch == "lfm2":
        out["shortconv.l_cache"] = t.CONV_TAPS
    if arch in ("qwen3next", "qwen35"):
        out |= _ssm(t.TAPS, delta.inner, delta.width, delta.heads, delta.keys)
        out |= _pattern("full_attention_interval", "attention.recurrent_layers", states, spec.mtp)
    if arch == "qwen3next":
        out |= {"expert_count": t.EXPERTS, "expert_used_count": t.EXPERTS}
        out |= {"expert_feed_forward_length": t.EXPERT_FF, "expert_shared_feed_forward_length": t.EXPERT_FF}
    if arch == "qwen35":
        out["rope.dimension_sections"] = [4, 2, 2, 0]
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
    """Which layers are of a kind: as a period that ends in one that is not, which every build reads; else layer by
    layer. Before b11063 gemma3 reads over the second form and takes a period of 6: another model."""
    n = marked.index(False) + 1
    if all(mark == ((i + 1) % n != 0) for i, mark in enumerate(marked)):
        return {period: n}
    return {each: [int(mark) for mark in marked] + [0] * more}


def vocabulary() -> dict[str, Any]:
    """The vocabulary of the recorded models, and their chat template."""
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
)
"""An architecture, the kinds of layers that it must have, and those that it may have."""
NO_ARCHITECTURE = "no architecture of llama.cpp has the layers '{}': {}"


class GgufModel(NamedTuple):
    """A model as it is written: the architecture, its layers, and the name by which ``model_kind`` knows it. ``delta``:
    sizes of its gated delta nets; ``head``: width of an attention head."""

    arch: str
    spec: Spec
    name: str
    delta: t.Delta = t.NARROW
    head: int = t.HEAD

    @property
    def file(self) -> str:
        """Name of its file, from which a recorded trace's reader finds the model."""
        return f"tiny-{self.name.replace('/', '_')}.gguf"


def find_model(notation: str) -> GgufModel:
    """The architecture that has these layers. Raises BadInput where none has.

    Gated delta nets come with plain positions (qwen3next), unless an MTP head follows or ``qwen35-`` precedes the
    layers: then with those of M-RoPE (qwen35), which no context shift can move.
    """
    kind = model_kind(notation)
    arch = _architecture(kind.spec, kind.mrope)
    layers = kind.spec.notation.replace(" ", "")
    return GgufModel(arch, kind.spec, f"{arch}-{layers}" if arch in MROPE else layers)


def _architecture(spec: Spec, mrope: bool) -> str:
    kinds = {layer.kind for layer in spec.layers}
    windows = {layer.window for layer in spec.layers} - {0}

    def refuse(why: str) -> BadInput:
        return BadInput(NO_ARCHITECTURE.format(spec.notation, why))

    if len(windows) > 1:
        raise refuse("all windows of a model are of one width")
    if (spec.mtp or mrope) and kinds != {"G", "A"}:
        raise refuse("MTP heads and M-RoPE come with G and A only" if spec.mtp else "qwen35 has both G and A")
    for arch, needs, may in ARCHITECTURES:
        if set(needs) <= kinds <= set(may):
            return "qwen35" if spec.mtp or mrope else arch
    if kinds in ({"C"}, {"G"}):
        raise refuse(f"those with {min(kinds)} have an attention cache beside it, even if without rows: add an A")
    raise refuse("H stands alone, windows stand with A or with C alone, and S, C, G stand with A")


def write_model(notation: str, path: Path, seed: int = 0) -> str:
    """Write the model; returns its architecture. The bytes depend on nothing but notation and seed. Raises BadInput for
    a notation that no architecture has."""
    model = find_model(notation)
    tiny_model(model).write(str(path), seed)
    return model.arch


def _keys(model: GgufModel) -> dict[str, Any]:
    """All keys of a model, in the order of the file."""
    general = {"architecture": model.arch, "name": f"tiny-{model.name}",
               "description": "random weights; for tests of cache logic only", "file_type": 0}  # fmt: skip
    own = {**sizes(model.arch, model.spec, model.head), **special(model.arch, model.spec, model.delta)}
    named = {"general": general, model.arch: own}
    return {**{f"{part}.{key}": value for part, keys in named.items() for key, value in keys.items()}, **vocabulary()}


EACH_LAYER = 11063          # the first build known to read a window for each layer of gemma3; b10809 does not


def check_build(file: Path, commit: str) -> None:
    """Raise BadInput where a build is known to load another model from a file of ours: windows of gemma3 that do not
    come in periods are written layer by layer, and before b11063 that is read over and a period of 6 taken. A file or a
    build with another name is not judged.
    Source: llama.cpp src/models/gemma3.cpp load_arch_hparams (b10809, b11063)."""
    number = re.fullmatch(r"b(\d+)", commit)
    try:
        model = find_model(file.stem.removeprefix("tiny-"))
    except BadInput:
        return
    layers = special(model.arch, model.spec).get("attention.sliding_window_pattern")
    if number and int(number[1]) < EACH_LAYER and isinstance(layers, list):
        cause = f"{commit} reads the windows of {quoted(model.spec.notation)} as another model's"
        hint = f"windows in periods, such as 'W8 A' or 'W8 W8 A', or a build from b{EACH_LAYER} on"
        raise BadInput(cause, file=str(file), hint=hint)


def tiny_model(model: GgufModel) -> TinyModel:
    """A model's keys, and its tensors by kind of layer; an MTP head is a layer of kind "M"."""
    arch, layers = model.arch, model.spec.layers
    embedding = 0.125 if arch == "gemma3" else 1.0                 # gemma3 multiplies it with the root of its width
    outer = t.outer(embedding, "token_embd_norm.weight" if arch == "lfm2" else "output_norm.weight")
    damping = t.DAMPED if model.spec.mtp else t.Damping()
    kinds = {layer.kind: list(_layer(model, layer, damping.trunk)) for layer in layers}
    order = "".join(layer.kind for layer in layers)
    if model.spec.mtp:
        kinds["M"] = [*_norms(arch), *t.mtp_head(damping.head)]
        order += "M"
    return TinyModel(_keys(model), outer, kinds, order)


def _layer(model: GgufModel, layer: Layer, damping: float) -> Iterator[Tensor]:
    arch = model.arch
    yield from _norms(arch)
    qwen = arch in ("qwen3next", "qwen35")
    if layer.kind == "G":
        yield from t.delta_net(damping, model.delta, joint=arch == "qwen3next")
    if layer.kind in "SH":
        yield from t.ssm()
    if layer.kind == "C":
        yield from t.short_convolution()
    if layer.part:
        yield from t.attention(damping, model.head, gated=qwen, normed=qwen or arch in ("gemma3", "lfm2"))
    if arch == "qwen3next":
        yield from t.experts()
    elif arch != "mamba2":
        yield from t.feed_forward(damping)


def _norms(arch: str) -> Iterator[Tensor]:
    """Norms between the parts of a layer."""
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
