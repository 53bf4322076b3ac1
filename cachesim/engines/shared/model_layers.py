"""Layers of a real model with the numbers that each keeps, from a config.json or the header of a GGUF.

Source: huggingface/transformers src/transformers/models/*/configuration_*.py; llama.cpp src/llama-hparams.cpp,
src/models/*.cpp load_arch_hparams (b11549).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, cut, quoted
from cachesim.base.untrusted_files import read_json
from cachesim.engines.shared.newest_models import (
    NEWEST,
    config_architecture,
    config_keys,
    config_kinds,
    newest_heads,
    newest_layers,
)
from cachesim.engines.shared.size_formulas import HEAD, LayerSize, attention, delta_net, kimi_delta, mamba, short_conv
from cachesim.engines.shared.unsimulated_models import refuse_unsized

LARGEST = 1 << 24         # largest accepted number in a configuration
MOST_LAYERS = 1024
LARGEST_FACTOR = 1024     # of a context that a configuration scales


class RopeScaling(NamedTuple):
    """Scaling of the positions that a configuration states. ``factor``: of the context; ``original``: the context
    before it [tokens], 0 = not stated; ``is_listed``: stated for each kind of layer."""

    kind: str = ""
    factor: float = 1.0
    original: int = 0
    is_listed: bool = False


class RealModel(NamedTuple):
    """A real model from the memory's point of view."""

    layers: tuple[LayerSize, ...]           # layers without memory, too
    source: str                             # origin of the data
    window: int = 0                         # [tokens], 0 = none
    context: int = 0                        # context that it was trained on [tokens], 0 = unknown
    mrope: bool = False                     # 2-D positions
    heads: tuple[LayerSize, ...] = ()       # layers of its MTP head
    head: int = HEAD                        # width of an attention head [numbers]
    state_type: str = ""                    # type of the recurrent matrices that its configuration names, "" = none
    row_type: str = ""                      # type of the rows that its configuration names, "" = none
    kernel: int = 0                         # tokens of a chunk of its recurrent kernel, 0 = not named
    arch: str = ""                          # architecture, as the file names it
    scaling: RopeScaling = RopeScaling()    # of its positions

    def of(self, letters: str) -> list[LayerSize]:
        """Return the layers of these kinds."""
        return [layer for layer in self.layers if layer.kind and layer.kind in letters]

    @property
    def full(self) -> list[LayerSize]:
        """Layers with rows of all positions."""
        return self.of("AHIPB")

    @property
    def windows(self) -> list[LayerSize]:
        """Layers with rows of a window."""
        return self.of("WD")

    @property
    def indexed(self) -> list[LayerSize]:
        """Layers with an index row for each token."""
        return self.of("IPB")

    @property
    def compressed(self) -> list[LayerSize]:
        """Layers with compressed rows."""
        return self.of("D")

    @property
    def states(self) -> list[LayerSize]:
        """Layers with a recurrent state."""
        return self.of("GSCH")


def layers_in(path: Path) -> RealModel:
    """Return the layers in a config.json or GGUF. Raise BadInput for any other file, for a missing size, and for a
    model whose memory is not simulated."""
    if path.suffix == ".gguf":
        from cachesim.base.gguf_header import read_gguf

        return _of_gguf(read_gguf(path, later=True), str(path))
    config = read_json(path, "configuration", is_python=True)
    if not isinstance(config, dict):
        raise BadInput("not a model configuration: expected an object", file=str(path))
    if isinstance(text := config.get("text_config"), dict):
        config = {"quantization_config": config.get("quantization_config"), **text}
    model = layers_of_config(config, str(path))
    if not any(layer.kind for layer in model.layers):
        raise BadInput("no layer has K/V rows or a state", file=str(path))
    return model


def layers_of_config(config: Mapping[str, Any], source: str) -> RealModel:
    """Return the layers of a configuration. Raise BadInput for a missing size, and for a model whose memory is not
    simulated."""
    return _of_config(_Numbers(config, source))


class _Numbers:
    """Sizes by key; each is an integer from 0 to LARGEST."""

    def __init__(self, keys: Mapping[str, Any], file: str, prefix: str = "") -> None:
        self.keys = keys
        self.file = file
        self.prefix = prefix

    def get(self, name: str, default: int | None = None) -> int:
        """Return the number of this name. Raise BadInput if it is missing without a default, and for an invalid
        number."""
        value = self.keys.get(self.prefix + name)
        if value is None:
            value = default
        if type(value) is not int or not 0 <= value <= LARGEST:
            what = "is missing" if value is None else f"is not an integer from 0 to {LARGEST}"
            raise BadInput(f"key {cut(self.prefix + name)} {what}", file=self.file)
        return value

    def positive(self, name: str, default: int | None = None) -> int:
        """Return the number of this name. Raise BadInput if it is missing without a default, or 0."""
        found = self.get(name, default or None)
        if not found:
            raise BadInput(f"key {cut(self.prefix + name)} is 0", file=self.file)
        return found

    def at(self, name: str, layer: int, default: int | None = None) -> int:
        """Return the number of a layer: an entry of a list of this name, or the number for all layers."""
        found = self.words(name)
        value = found[layer % len(found)] if found else self.get(name, default)
        if type(value) is not int or not 0 <= value <= LARGEST:
            raise BadInput(f"key {cut(self.prefix + name)} has an invalid entry", file=self.file)
        return value

    def words(self, name: str) -> list[Any]:
        """Return the list of this name, [] if it is missing."""
        value = self.keys.get(self.prefix + name)
        return value[:MOST_LAYERS] if isinstance(value, list) else []

    def count(self, name: str) -> int:
        """Return a number of layers. Raise BadInput if it is out of range."""
        n = self.get(name)
        if not 1 <= n <= MOST_LAYERS:
            raise BadInput(f"number of layers out of range: {n}", file=self.file, hint=f"1 to {MOST_LAYERS}")
        return n


# --- config.json ---------------------------------------------------------------------------------------------

LAYER_TYPES = {"full_attention": "A", "attention": "A", "sliding_attention": "W", "linear_attention": "G",
               "conv": "C", "mamba": "S", "mamba2": "S", "hybrid": "H", "mlp": "", "moe": ""}  # fmt: skip
"""``layer_types`` of a configuration -> letters of the notation, "" = a layer without memory."""
LISTS = ("layer_types", "layers_block_type")
"""Keys with such a list."""
PATTERNS = {"gemma2": 2, "gemma3_text": 6, "cohere2": 4}
"""Model type -> distance of its layers with full attention, if the configuration does not state it."""
BLOCKS = {"M": "S", "*": "A", "-": "", "E": ""}
"""Letters of ``hybrid_override_pattern`` -> letters of the notation."""
ALIKE = {"falcon_h1": "H", "mamba2": "S"}
NEWEST_KEYS = ("index_topk", "index_n_heads", "compress_ratios")
"""Keys of layers that choose or compress rows: an architecture that is not known has them in an unknown way."""
OTHER_LAYERS = ("attention_chunk_size", "attn_layer_indices", "attn_layer_period", "attn_type_list", "block_configs",
                "block_types", "conv_L_cache", "full_attn_idxs", "linear_num_key_heads", "lru_width", "mamba_d_state",
                "mamba_n_heads", "mamba_num_heads", "ssm_state_size", "state_size", "time_mix_extra_dim")  # fmt: skip
"""Keys of layers that are no attention over all tokens: without a list of layers their order is not known."""
FULL_TYPE = 1
"""Entry of ``attn_type_list`` for a layer with full attention."""
DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma3_text": {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256},
    "qwen3_next": {"full_attention_interval": 4},
}
"""Model type -> numbers that its configuration may leave out."""


def _of_config(keys: _Numbers) -> RealModel:
    arch = str(keys.keys.get("model_type", ""))
    refuse_unsized(arch, keys.file)
    given = {name: value for name, value in keys.keys.items() if value is not None}
    keys = _Numbers({**DEFAULTS.get(arch, {}), **given}, keys.file)
    newest = config_architecture(given)
    letters = config_kinds(given, newest, keys.count("num_hidden_layers")) if newest else _config_letters(keys)
    heads = keys.get("num_attention_heads", 0)
    head = keys.get("head_dim", keys.get("hidden_size", 0) // heads if heads else 0)
    shared = keys.get("num_kv_shared_layers", 0)
    layers = [_config_layer(keys, letter, heads, head) for letter in letters]
    layers[len(layers) - shared :] = [LayerSize("")] * min(shared, len(layers))
    if newest:
        layers = newest_layers(_Numbers(config_keys(given), keys.file), newest, layers)
    elif unknown := next((key for key in NEWEST_KEYS if key in keys.keys), ""):
        raise BadInput(f"unknown kind of layers: model type {quoted(arch)} with key {unknown}", file=keys.file)
    windows = any(layer.kind in ("W", "D") for layer in layers)
    mtp = keys.get("mtp_num_hidden_layers", keys.get("num_nextn_predict_layers", 0))
    drafts = [_config_layer(keys, "A", heads, head) for _ in range(min(mtp, MOST_LAYERS))]
    if newest:
        drafts = newest_heads(_Numbers(config_keys(given), keys.file), newest, drafts)
    rope = keys.keys.get("rope_parameters", keys.keys.get("rope_scaling"))
    return RealModel(
        tuple(layers),
        keys.file,
        window=keys.get("sliding_window", keys.get("sliding_window_size", 0)) if windows else 0,
        context=keys.get("max_position_embeddings", 0),
        mrope=isinstance(rope, dict) and "mrope_section" in rope,
        heads=tuple(drafts),
        head=_row_head(layers) if newest else head or HEAD,
        state_type=_state_type(keys),
        row_type=_row_type(keys.keys.get("quantization_config")),
        kernel=keys.get("mamba_chunk_size", 0),
        arch=arch,
        scaling=_rope_scaling(rope),
    )  # fmt: skip


def _rope_scaling(rope: Any) -> RopeScaling:
    """Return the scaling of positions that ``rope_parameters`` or ``rope_scaling`` states, of the first kind of layers
    that is scaled if it has several."""
    if not isinstance(rope, dict):
        return RopeScaling()
    listed = [one for one in rope.values() if isinstance(one, dict)]
    scaled = [one for one in listed if one.get("factor") is not None]
    found = (scaled or listed)[0] if listed else rope
    factor, original = found.get("factor"), found.get("original_max_position_embeddings")
    return RopeScaling(
        kind=str(found.get("rope_type", found.get("type", ""))),
        factor=float(factor) if isinstance(factor, int | float) and 0 < factor <= LARGEST_FACTOR else 1.0,
        original=original if type(original) is int else 0,
        is_listed=bool(listed),
    )


def _row_head(layers: Sequence[LayerSize]) -> int:
    """Return the width of a head in the first layer with rows [numbers]: that of a latent row for MLA."""
    first = next((one for one in layers if one.key), None)
    return first.key // max(1, first.kv_heads) if first else HEAD


def _row_type(quantisation: Any) -> str:
    """Return the type of the rows that a checkpoint asks for, "" if it asks for none. Source: vLLM
    vllm/utils/torch_utils.py get_kv_cache_quant_algo_string (0.33.0)."""
    outer = quantisation if isinstance(quantisation, dict) else {}
    inner = outer.get("quantization")
    inner = inner if isinstance(inner, dict) else outer
    if not str(outer.get("quant_method", "")).startswith("modelopt"):
        return ""
    names = ("kv_cache_scheme", "kv_cache_quant_algo")
    found = next((of[name] for name in names for of in (inner, outer) if of.get(name)), "")
    if isinstance(found, dict):
        return "fp8" if (found.get("num_bits"), found.get("type"), found.get("dynamic")) == (8, "float", False) else ""
    return "fp8" if str(found).lower() == "fp8" else ""


def _state_type(keys: _Numbers) -> str:
    """Return the type of the recurrent matrices: the one that the configuration names, float32 for Nemotron-H and for
    Kimi's delta attention."""
    is_wide = keys.keys.get("model_type") == "nemotron_h" or isinstance(keys.keys.get("linear_attn_config"), dict)
    default = "float32" if is_wide else ""
    return str(keys.keys.get("mamba_ssm_dtype", keys.keys.get("mamba_ssm_cache_dtype", default)))


def _config_layer(keys: _Numbers, kind: str, heads: int, head: int) -> LayerSize:
    """Return the sizes of a layer of this kind."""
    kimi = keys.keys.get("linear_attn_config")
    if kind == "G" and isinstance(kimi, dict):
        own = _Numbers(kimi, keys.file)
        return kimi_delta(own.get("short_conv_kernel_size", 4), own.get("num_heads"), own.get("head_dim"))
    if kind == "G":
        names = ("conv_kernel_dim", "num_key_heads", "num_value_heads", "key_head_dim", "value_head_dim")
        return delta_net(*(keys.get(f"linear_{name}") for name in names))
    if kind == "C":
        return short_conv(keys.get("conv_L_cache"), keys.get("hidden_size"))
    state = _config_mamba(keys) if kind in ("S", "H") else LayerSize(kind)
    if kind not in ("A", "W", "H"):
        return state
    if not (heads and head) and not keys.get("kv_lora_rank", 0):
        head = keys.positive("head_dim" if heads else "num_attention_heads")
    kv_heads = keys.positive("num_key_value_heads", heads)
    if kind == "W" and (window_heads := keys.get("swa_num_key_value_heads", 0)):
        head = keys.get("swa_head_dim", head)
        return attention(window_heads, head, keys.get("swa_v_head_dim", head), kind)
    if kind == "A" and keys.get("global_head_dim", 0):
        head, kv_heads = keys.get("global_head_dim"), keys.get("num_global_key_value_heads", kv_heads)
    narrow = "swa_" if kind == "W" and keys.get("swa_kv_lora_rank", 0) else ""
    if latent := keys.get(f"{narrow}kv_lora_rank", 0):
        return attention(1, latent + keys.get(f"{narrow}qk_rope_head_dim"), 0, kind)
    rows = attention(kv_heads, head, keys.get("v_head_dim", head), kind)
    return _beside(rows, state)


def _beside(rows: LayerSize, state: LayerSize) -> LayerSize:
    """Return a layer with these rows and this state."""
    return state._replace(kind=rows.kind, key=rows.key, value=rows.value, kv_heads=rows.kv_heads)


def _config_mamba(keys: _Numbers) -> LayerSize:
    inner = (keys.get("mamba_n_heads", 0) * keys.get("mamba_d_head", 0) or keys.get("mamba_d_ssm", 0)
             or keys.get("mamba_num_heads", 0) * keys.get("mamba_head_dim", 0)
             or keys.get("num_heads", 0) * keys.get("head_dim", 0))  # fmt: skip
    state = keys.get("mamba_d_state", keys.get("ssm_state_size", keys.get("state_size", 0)) or None)
    return mamba(keys.get("mamba_d_conv", keys.get("conv_kernel", 4)),
                 inner or keys.get("mamba_expand", keys.get("expand", 2)) * keys.get("hidden_size"),
                 state, keys.get("mamba_n_groups", keys.get("n_groups", 1)))  # fmt: skip


def _config_letters(keys: _Numbers) -> list[str]:
    """Return a letter for each layer."""
    kind = str(keys.keys.get("model_type", ""))
    name = next((name for name in LISTS if keys.words(name)), "")
    if name:
        types = [str(one) for one in keys.words(name)]
        if unknown := next((one for one in types if one not in LAYER_TYPES), ""):
            raise BadInput(f"unknown kind in {name}: {quoted(unknown)}", file=keys.file, hint=", ".join(LAYER_TYPES))
        return [LAYER_TYPES[one] for one in types]
    if isinstance(blocks := keys.keys.get("hybrid_override_pattern"), str):
        if not blocks or set(blocks) - set(BLOCKS):
            raise BadInput("unknown kind in hybrid_override_pattern", file=keys.file, hint=" ".join(BLOCKS))
        return [BLOCKS[letter] for letter in blocks[:MOST_LAYERS]]
    if windows := keys.words("hybrid_layer_pattern"):
        return ["W" if is_window else "A" for is_window in windows]
    n, every = keys.count("num_hidden_layers"), keys.get("full_attention_interval", 0)
    if every:
        return ["A" if (i + 1) % every == 0 else "G" for i in range(n)]
    every = keys.get("sliding_window_pattern", PATTERNS.get(kind, 0))
    if every and keys.get("sliding_window", 0):
        return ["A" if (i + 1) % every == 0 else "W" for i in range(n)]
    other = next((key for key in OTHER_LAYERS if keys.keys.get(key) and not _lists_attention(keys, key)), "")
    if other and kind not in ALIKE:
        raise BadInput(f"unknown order of layers: model type {quoted(kind)} with key {other}", file=keys.file,
                       hint="layer_types lists them")  # fmt: skip
    return [ALIKE.get(kind, "A")] * n


def _lists_attention(keys: _Numbers, name: str) -> bool:
    """True if a list of this name has nothing but layers with full attention."""
    types = keys.words(name)
    return bool(types) and all(one == FULL_TYPE for one in types)


# --- GGUF ----------------------------------------------------------------------------------------------------

PERIODS = {
    "afmoe": 4, "cohere2": 4, "cohere2moe": -4, "exaone-moe": 4, "exaone4": 4, "gemma2": 2, "gemma3": 6, "gemma3n": 5,
    "laguna": -4, "mellum": 4, "muse-glimmer": 4, "olmo2": 4, "gpt-oss": 2, "plamo3": 8, "smallthinker": -4,
    "llama4": 4,
}  # fmt: skip
"""Architecture -> distance of its layers with full attention, if the file does not state it; negative = they come
first."""
PATTERNED = ("dots3note", "gemma4", "granite_swa", "lfm2", "maple", "mimo2", "spark2_5", "step35")
"""Architectures with windows whose files list them (or, lfm2, have them in all attention layers)."""
MROPE = ("qwen2vl", "qwen3vl", "qwen3vlmoe", "qwen35", "qwen35moe", "qwen4exp")


def _of_gguf(header: Mapping[str, Any], file: str) -> RealModel:
    arch = str(header.get("general.architecture", ""))
    keys = _Numbers(header, file, f"{arch}.")
    refuse_unsized(arch, file)
    n = keys.count("block_count")
    mtp = min(keys.get("nextn_predict_layers", 0), n - 1)
    letters = _gguf_letters(keys, arch, n - mtp)
    layers = [_gguf_layer(keys, letter, i) for i, letter in enumerate(letters)]
    shared = min(keys.get("attention.shared_kv_layers", 0), len(layers))
    layers[len(layers) - shared :] = [LayerSize("")] * shared
    if arch in NEWEST:
        layers = newest_layers(keys, arch, layers)
    windows = any(layer.kind in ("W", "D") for layer in layers)
    drafts = [_gguf_layer(keys, "A", n - mtp + i) for i in range(mtp)]
    if arch in NEWEST:
        drafts = newest_heads(keys, arch, drafts)
    return RealModel(
        tuple(layers), file, window=keys.get("attention.sliding_window", 0) if windows else 0,
        context=keys.get("context_length", 0), mrope=arch in MROPE, heads=tuple(drafts),
        head=_gguf_head(keys, 0) if any(layer.key for layer in layers) else HEAD, arch=arch,
    )  # fmt: skip


def _gguf_letters(keys: _Numbers, arch: str, n: int) -> list[str]:
    """Return a letter for each layer."""
    every, recurrent = keys.get("full_attention_interval", 0), keys.words("attention.recurrent_layers")
    heads = keys.words("attention.head_count_kv")
    if recurrent:
        return ["G" if recurrent[i % len(recurrent)] else "A" for i in range(n)]
    if every or arch in MROPE[3:]:
        return ["A" if (i + 1) % (every or 4) == 0 else "G" for i in range(n)]
    windows = _windows(keys, arch, n)
    if heads and not all(heads) and keys.get("kda.head_dim", 0):
        return ["A" if heads[i % len(heads)] else "G" for i in range(n)]
    if heads and not all(heads):
        rest = "C" if keys.get("shortconv.l_cache", 0) else "S"
        wide = keys.words("feed_forward_length")                 # a layer with a wide MLP has nothing else (nemotron_h)
        mlp = [bool(wide) and not all(wide) and bool(wide[i % len(wide)]) for i in range(n)]
        return [("W" if windows[i] else "A") if heads[i % len(heads)] else "" if mlp[i] else rest for i in range(n)]
    if keys.get("ssm.state_size", 0):
        return ["H" if heads or keys.get("attention.head_count_kv", 0) else "S"] * n
    return ["W" if windows[i] else "A" for i in range(n)]


def _windows(keys: _Numbers, arch: str, n: int) -> list[bool]:
    """Return which attention layers have a window, as the architecture reads its keys."""
    name = "attention.sliding_window_pattern"
    if not (keys.get("attention.sliding_window", 0) and (arch in PERIODS or arch in PATTERNED)):
        return [False] * n
    if listed := keys.words(name):
        return [bool(listed[i % len(listed)]) for i in range(n)]
    period = PERIODS.get(arch, 0)
    every = keys.get(name, 0) or abs(period)
    return [not every or (i % every > 0 if period < 0 else i % every < every - 1) for i in range(n)]


def _gguf_head(keys: _Numbers, i: int) -> int:
    """Return the width of a head in layer ``i`` [numbers]."""
    width = keys.get("attention.key_length", 0)
    return width or keys.get("embedding_length") // max(1, keys.at("attention.head_count", i))


def _gguf_layer(keys: _Numbers, kind: str, i: int) -> LayerSize:
    """Return the sizes of layer ``i``, which is of this kind."""
    if kind == "G" and (width := keys.get("kda.head_dim", 0)):
        return kimi_delta(keys.get("ssm.conv_kernel"), keys.at("attention.head_count", i), width)
    if kind == "G":
        heads = keys.get("ssm.time_step_rank")
        return delta_net(keys.get("ssm.conv_kernel"), keys.get("ssm.group_count"), heads, keys.get("ssm.state_size"),
                         keys.get("ssm.inner_size") // max(1, heads))  # fmt: skip
    if kind == "C":
        return short_conv(keys.get("shortconv.l_cache"), keys.get("embedding_length"))
    state = LayerSize(kind)
    if kind in ("S", "H"):
        state = mamba(keys.get("ssm.conv_kernel"), keys.get("ssm.inner_size"), keys.get("ssm.state_size"),
                      keys.get("ssm.group_count", 1))  # fmt: skip
    if kind not in ("A", "W", "H"):
        return state
    all_heads, head = keys.at("attention.head_count", i), _gguf_head(keys, i)
    narrow = "_swa" if kind == "W" and keys.get("attention.key_length_swa", 0) else ""
    key = keys.get(f"attention.key_length{narrow}", 0) or head
    value = 0 if keys.get("attention.key_length_mla", 0) else keys.get(f"attention.value_length{narrow}", head)
    rows = attention(keys.at("attention.head_count_kv", i, all_heads), key, value, kind)
    return _beside(rows, state)
