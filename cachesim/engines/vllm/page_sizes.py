"""Pages of a real model, and the blocks that follow from them.

A block of attention and the state of a recurrent layer take pages of one size from the pool. The server raises the
block until its page holds a state. Source: vLLM vllm/platforms/interface.py _align_hybrid_block_size,
vllm/v1/core/kv_cache_planning.py unify_kv_cache_spec_page_size, vllm/model_executor/layers/mamba/mamba_utils.py
(0.33.0).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cachesim.base.errors import BadInput, counted, quoted
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import F16, F32, LayerSize
from cachesim.engines.vllm.compressed_layers import (
    CHOOSING,
    SCALE_OF,
    PackedGroup,
    kernel_block,
    layer_caches,
    packed_groups,
    served_model,
)
from cachesim.engines.vllm.flags import AUTO, BYTES, Options, options
from cachesim.engines.vllm.layer_groups import LayerGroups, groups_of
from cachesim.engines.vllm.rules.blocks import Pages
from cachesim.engines.vllm.rules.schedule import EAGLE
from cachesim.engines.vllm.rules.start import EVERY

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

STATE_BYTES = {"bfloat16": F16, "float16": F16, "float32": F32}
"""Type of a state -> bytes of a number."""

BLOCK = options({}).block_size
"""Tokens of a block if the command line does not state it."""


class LayerBlocks(NamedTuple):
    """Tokens of a block by kind of layer."""

    full: int
    window: int
    state: int


def row_bytes(layer: LayerSize, opts: Options, own: str = "") -> int:
    """Return the bytes of a token's K row and V row on a device, which has at least one head. ``own``: type of the rows
    that the model's configuration names."""
    given = own if own and opts.kv_cache_dtype == AUTO else opts.kv_cache_dtype
    heads = max(1, layer.kv_heads)
    kept = max(1, heads // opts.tensor_parallel_size)
    width = opts.number_bytes if given == AUTO else BYTES[given]
    return (layer.key + layer.value) // heads * kept * width


def state_bytes(layer: LayerSize, model: RealModel, opts: Options) -> int:
    """Return the bytes of a layer's state on a device. Raise BadInput if the devices cannot share it."""
    ranks = opts.tensor_parallel_size
    conv = _width(opts, opts.mamba_cache_dtype, AUTO)
    matrix = _width(opts, opts.mamba_ssm_cache_dtype, model.state_type or opts.mamba_cache_dtype)
    channels = layer.conv // layer.inputs if layer.inputs else 0
    if layer.groups % ranks:
        channels += 2 * (ranks - layer.groups) * layer.width            # each device has a group
    if channels % ranks or layer.matrix % ranks:
        name = opts.real_model or model.source
        raise BadInput(f"tensor_parallel_size {ranks} does not divide the states of {quoted(name)}")
    inputs = layer.inputs + (opts.num_speculative_tokens if layer.matrix else 0)
    return channels // ranks * inputs * conv + layer.matrix // ranks * matrix


def _width(opts: Options, given: str, default: str) -> int:
    """Return the bytes of a number of a state; ``auto`` is the model's own type. Raise BadInput."""
    name = default if given == AUTO else given
    if name != AUTO and name not in STATE_BYTES:
        raise BadInput(f"unknown type of states {quoted(name)}", hint=", ".join(STATE_BYTES))
    return STATE_BYTES.get(name, opts.number_bytes)


def attention_block(rules: Rules, opts: Options, model: RealModel) -> int:
    """Return the tokens of a block of attention. Raise BadInput for a mode under which they are not known."""
    if opts.attention_block_size or not (model.states and model.full):
        return opts.attention_block_size or kernel_block(model, opts.block_size, BLOCK)
    if opts.mamba_cache_mode == EVERY and opts.enable_prefix_caching:
        raise BadInput("blocks of real models under mamba_cache_mode all are not known",
                       hint="attention_block_size, which the server's log states")  # fmt: skip
    return rules.attention_block(Pages(
        attn_page_size_1_token=row_bytes(model.full[0], opts, model.row_type),
        mamba_page_size=max(state_bytes(layer, model, opts) for layer in model.states),
        block_size=opts.block_size,
        mamba_prefill_checkpoint_alignment=opts.mamba_prefill_checkpoint_alignment if opts.enable_prefix_caching else 0,
        use_mla=_is_latent(model),
    ))  # fmt: skip


def _is_latent(model: RealModel) -> bool:
    """True if a token has one row for all heads, without values."""
    return bool(model.full) and not model.full[0].value


def has_latent_rows(opts: Options) -> bool:
    """True if the real model that the options name keeps one row for all heads."""
    return bool(opts.real_model) and _is_latent(served_model(opts.real_model))


def layer_blocks(rules: Rules, opts: Options) -> LayerBlocks:
    """Return the tokens of a block by kind of layer: of the real model that the options name, or as the options state
    them. Raise BadInput."""
    if not opts.real_model:
        block = opts.attention_block_size or opts.block_size
        return LayerBlocks(block, block, opts.mamba_block_size or block)
    return model_blocks(rules, opts, served_model(opts.real_model))


def model_blocks(rules: Rules, opts: Options, model: RealModel) -> LayerBlocks:
    """Return the tokens of a block of a real model, by kind of layer. Raise BadInput."""
    block = attention_block(rules, opts, model)
    rows = [row_bytes(layers[0], opts, model.row_type) for layers in (model.full, model.windows) if layers]
    if len(set(rows)) < 2:
        return LayerBlocks(block, block, block)
    full, window = (rules.page_block(block, row, max(rows)) for row in rows)
    return LayerBlocks(full, window, block)


class GroupBlocks(NamedTuple):
    """A group of layers of a real model, and its blocks."""

    letter: str         # A = all tokens, W = a window, S = states
    window: int         # [tokens], 0 = all
    block: int          # tokens of a block


def group_blocks(rules: Rules, opts: Options, model: RealModel) -> list[GroupBlocks]:
    """Return the groups of a real model. Raise BadInput."""
    if model.compressed:
        firsts = [group.caches[0] for group in packed_model(model, opts)]
        return [GroupBlocks(cache.letter, cache.window, cache.block) for cache in firsts]
    groups = model_groups(model, opts)
    sizes = model_blocks(rules, opts, model)
    return [
        *[GroupBlocks("A", 0, sizes.full)] * groups.full,
        *[GroupBlocks("W", model.window, sizes.window)] * groups.window,
        *[GroupBlocks("S", 0, sizes.state)] * groups.state,
    ]


def block_bytes(rules: Rules, opts: Options, model: RealModel) -> int:
    """Return the bytes of a block in all layers of a group of a real model on a device. Raise BadInput for a model
    whose pages were not read."""
    if model.compressed:
        return max(group.bytes for group in packed_model(model, opts))
    if model.indexed:
        drafted = max(1, len(model.heads)) if opts.speculative_method in EAGLE else 0
        layers = [*model.full, *model.full[-1:] * drafted]
        return attention_block(rules, opts, model) * sum(chosen_bytes(layer, opts, model) for layer in layers)
    check_alike(model)
    sizes = model_blocks(rules, opts, model)
    rows = [row_bytes(layer, opts, model.row_type) * sizes.full for layer in model.full]
    rows += [row_bytes(layer, opts, model.row_type) * sizes.window for layer in model.windows]
    states = [state_bytes(layer, model, opts) for layer in model.states]
    return max((*rows, *states)) * model_groups(model, opts).layers


def check_alike(model: RealModel) -> None:
    """Raise BadInput for a model whose layers of a kind keep different amounts."""
    kinds = (model.full, model.windows, model.states)
    if any(len({layer._replace(kind="") for layer in layers}) > 1 for layers in kinds):
        raise BadInput("blocks of models whose layers of a kind have different sizes are not modelled")


LATENT_FP8 = 656            # bytes of a latent row of fp8, with its scales and a part of 2 bytes


def chosen_bytes(layer: LayerSize, opts: Options, model: RealModel) -> int:
    """Return the bytes of a token in a layer that chooses rows, or uses another layer's choice: its row, and the key of
    its index. Raise BadInput for a kind of layers that was not read.

    Source: vLLM vllm/model_executor/layers/attention/mla_attention.py get_kv_cache_spec,
    vllm/models/deepseek_v32/attention.py, vllm/models/minimax_m3/common/indexer.py (0.33.0)."""
    row = row_bytes(layer, opts, model.row_type)
    if any(one.kind == "B" for one in model.layers):
        return row + layer.index_key * opts.number_bytes
    if model.arch not in CHOOSING or layer.kind not in "IA":
        raise BadInput("vllm: blocks of these layers that choose rows are not modelled")
    if BYTES[opts.kv_cache_dtype] == 1:
        row = LATENT_FP8
    index = layer.index_key + layer.index_key // SCALE_OF * F32 if layer.kind == "I" else 0
    return row + index


def token_bytes(rules: Rules, opts: Options, model: RealModel) -> tuple[int, int]:
    """Return the bytes of a token in all layers that keep all tokens, and in those that keep a window. Raise
    BadInput."""
    if model.compressed:
        caches = [cache for group in packed_model(model, opts) for cache in group.caches]
        full, window = (sum(cache.page // cache.block for cache in caches if cache.letter == letter) for letter in "AW")
        return full, window
    if model.indexed:
        return block_bytes(rules, opts, model) // attention_block(rules, opts, model), 0
    full, window = (sum(row_bytes(layer, opts, model.row_type) for layer in of) for of in (model.full, model.windows))
    return full, window


def real_groups(opts: Options) -> LayerGroups | None:
    """Return the groups of the real model that the options name, with the layers of its drafter; None without a name.
    Raise BadInput."""
    if not opts.real_model:
        return None
    return model_groups(served_model(opts.real_model), opts)


def compressed_groups(opts: Options) -> list[PackedGroup]:
    """Return the groups of the real model that the options name, if its rows are compressed; [] for any other. Raise
    BadInput."""
    model = served_model(opts.real_model) if opts.real_model else None
    return packed_model(model, opts) if model and model.compressed else []


def packed_model(model: RealModel, opts: Options) -> list[PackedGroup]:
    """Return the groups of a model with compressed rows. Raise BadInput for a block that its kernels do not take."""
    block = opts.attention_block_size or kernel_block(model, opts.block_size, BLOCK)
    drafted = max(1, len(model.heads)) if opts.speculative_method in EAGLE else 0
    return packed_groups(layer_caches(model, block, drafted))


def model_groups(model: RealModel, opts: Options) -> LayerGroups:
    """Return the groups of a model, with the layers of its drafter: those of the MTP head, or a single one."""
    return groups_of(model, max(1, len(model.heads)) if opts.speculative_method in EAGLE else 0)


def has_blocks_of_size(rules: Rules, opts: Options) -> bool:
    """True if all blocks have the tokens of ``block_size``. Raise BadInput."""
    if opts.kv_groups or compressed_groups(opts):
        return False
    return set(layer_blocks(rules, opts)) == {opts.block_size}


def derived_blocks(rules: Rules, opts: Options) -> list[str]:
    """Return lines about the blocks and groups of the real model that the options name, [] without one. Raise
    BadInput."""
    if not opts.real_model or opts.kv_groups:
        return []
    model = served_model(opts.real_model)
    name = "/".join(Path(opts.real_model).parts[-2:])
    if packed := compressed_groups(opts):
        words = " ".join(group.word for group in packed)
        least = max(group.caches[0].block for group in packed)
        return [f"{name}: groups {words}: a common prefix below {least} is not reused"]
    blocks = layer_blocks(rules, opts)
    said = []
    if blocks.full != BLOCK and model.full and not model.windows:
        said.append(f"blocks of {blocks.full} tokens: a common prefix below {blocks.full} is not reused")
    elif model.full and model.windows and blocks.full != blocks.window:
        said.append(f"blocks of {blocks.full} tokens, in window layers {blocks.window}")
    groups = model_groups(model, opts)
    kinds = {"attention": groups.full, "windows": groups.window, "states": groups.state}
    numbers = [f"{number} of {kind}" for kind, number in kinds.items() if number]
    if len(numbers) > 1:
        most = counted(groups.layers, "layer")
        said.append(f"groups: {', '.join(numbers)}, each with its own blocks for up to {most}")
    return [f"{name}: {line}" for line in said]
