"""Planning of the groups of layers with their block sizes, and of the sizes that follow from them.

Layers that store alike form a group; the groups of a model have the same number of layers. Source: vLLM
vllm/v1/core/kv_cache_planning.py, kv_cache_utils.py resolve_kv_cache_block_sizes (0.33.0).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Sequence

from cachesim.base.errors import BadInput, NotInBuild, quoted
from cachesim.engines.vllm.flags import FITTING, Options
from cachesim.engines.vllm.kv_cache_interface import FULL, KVCacheConfig, KVCacheGroupSpec
from cachesim.engines.vllm.layer_groups import LayerGroups, group_size
from cachesim.engines.vllm.page_sizes import LayerBlocks, compressed_groups, layer_blocks, real_groups
from cachesim.engines.vllm.rules.blocks import DENSE, Admission
from cachesim.engines.vllm.rules.lookup import SpecGroup
from cachesim.engines.vllm.rules.schedule import Drafter, Speculation
from cachesim.engines.vllm.rules.start import NONE
from cachesim.model import Spec

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

UNLIMITED = 1 << 30           # length of the longest request [tokens] if that of the model is not known
KINDS = {"A": "full", "W": "swa", "R": "rswa", "K": "chunked", "S": "mamba"}
_WORD = re.compile(r"([AWRKS])(\d{0,7})/([1-9]\d{0,8})(e?)")


def stated_groups(text: str, spec: Spec, empty: bool = False) -> list[KVCacheGroupSpec]:
    """Read the option ``kv_groups``. ``empty``: groups may have no layer, because a real model has more groups than the
    few layers that stand for it. Raise BadInput for a bad word, and for layers without a group."""
    left = layers_by_kind(spec)
    words = text.split()
    groups = list[KVCacheGroupSpec]()
    for i, word in enumerate(words):
        found = _WORD.fullmatch(word)
        if found is None:
            raise BadInput(f"kv_groups: {quoted(word)} is not a group", hint="for example A/16 W8/16 S/64e")
        letter, size, block, eagle = found.groups()
        mine = left.get(_layers_of(word), [])
        like_it = [_layers_of(other) for other in words[i:]].count(_layers_of(word))
        take = -(-len(mine) // like_it)
        layers = tuple(mine[:take])
        del mine[:take]
        groups.append(KVCacheGroupSpec(
            i, KINDS[letter], block_size=int(block), window=int(size or 0), is_eagle_group=bool(eagle), layers=layers,
        ))  # fmt: skip
    if not groups or any(left.values()) or not (empty or all(group.layers for group in groups)):
        raise BadInput(f"kv_groups {quoted(text)} does not fit the layers of {quoted(spec.notation)}")
    return groups


def _layers_of(word: str) -> tuple[str, int]:
    """Return letter and size of the layers that a group takes: a reference window is full attention."""
    letter, size = word[:1], word[1:].partition("/")[0]
    return ("A", 0) if letter == "R" else (letter, int(size) if size.isdigit() else 0)


def layers_by_kind(spec: Spec) -> dict[tuple[str, int], list[int]]:
    """Return the layers by letter of the group and window or chunk; a layer with two parts is in two groups."""
    found: dict[tuple[str, int], list[int]] = {}
    for i, layer in enumerate(spec.layers):
        if layer.part:
            letter = {"base": "A", "swa": "W", "chunk": "K"}[layer.part]
            found.setdefault((letter, layer.window), []).append(i)
        if layer.recurrence:
            found.setdefault(("S", 0), []).append(i)
    return found


def made_groups(blocks: LayerBlocks, spec: Spec, eagle: bool, groups: LayerGroups | None) -> str:
    """Return the groups of a model as ``kv_groups`` states them. ``groups``: number of groups by kind; None = as
    many as the layers of ``spec`` fill."""
    words = list[str]()
    for (letter, window), number in groups_by_kind(spec, groups).items():
        block = {"S": blocks.state, "W": blocks.window}.get(letter, blocks.full)
        words += [f"{letter}{window or ''}/{block}"] * number
    if eagle:
        words[0] += "e"
    return " ".join(words)


def groups_by_kind(spec: Spec, groups: LayerGroups | None) -> dict[tuple[str, int], int]:
    """Return the number of groups by letter and window or chunk, full attention first. ``groups``: number of groups of
    a real model; None = as many as the layers of ``spec`` fill."""
    kinds = layers_by_kind(spec)
    size = group_size([len(layers) for layers in kinds.values()])
    stated = {} if groups is None else {"A": groups.full, "W": groups.window, "S": groups.state}
    in_order = sorted(kinds.items(), key=lambda pair: pair[0][0] != "A")
    return {kind: stated.get(kind[0], -(-len(layers) // size)) for kind, layers in in_order}


def get_kv_cache_config(rules: Rules, opts: Options, spec: Spec) -> KVCacheConfig:
    """Return the groups and sizes of a server. Raise NotInBuild for sizes with which the server does not start."""
    speculation = _speculation(rules, opts)
    ahead = speculation.num_prefill_lookahead
    ranks = opts.decode_context_parallel_size
    stated = _groups(rules, opts, spec, eagle=ahead > 0 and not opts.disable_eagle_block_drop)
    groups = [group if group.kind == "mamba" else group._replace(block_size=group.block_size * ranks)
              for group in stated]  # fmt: skip
    max_model_len = maximum_length(rules, opts, groups)
    if not (opts.kv_groups or opts.enable_prefix_caching):
        groups, stated = (_endless(of, max_model_len) for of in (groups, stated))
    step = rules.scheduler_block([group.block_size for group in groups])
    at_ends = _states_at_ends(rules, opts)
    aligned = opts.enable_prefix_caching and at_ends
    unit = _hash_block_size(rules, opts, groups, aligned)
    if opts.hashing and any(group.block_size % unit for group in groups):
        raise NotInBuild(f"prefix_match_unit {unit} does not divide the blocks of {quoted(opts.kv_groups or spec)}")
    states = [group.block_size for group in groups if group.kind == "mamba" and aligned]
    windows = [group.block_size for group in groups if group.kind in ("swa", "chunked")]
    hybrid = opts.enable_prefix_caching and len(groups) > 1
    partial = hybrid and rules.partial_hits(states, windows, unit, ranks > 1)
    eagle = {group.group_id for group in groups if group.is_eagle_group}
    drops = (eagle or set(range(len(groups)))) if speculation.use_eagle_block_drop else set()
    kinds = attention_groups(groups, drops) if opts.enable_prefix_caching else ()
    dropping = {group_id for kind in kinds if kind.use_eagle for group_id in kind.group_ids}
    groups = [group._replace(use_eagle=group.group_id in dropping, align=group.kind == "mamba" and aligned,
                             max_admission_blocks_per_request=_admission_cap(rules, opts, group, max_model_len))
              for group in groups]  # fmt: skip
    _check_offload(rules, opts, groups, unit)
    check_sizes(opts, groups, step, ahead if eagle | drops else 0)
    return KVCacheConfig(
        kv_cache_groups=tuple(groups), attention_groups=kinds, scheduler_block_size=step, hash_block_size=unit,
        cache_hit_alignment_tokens=unit if partial else step, enable_partial_hash_hits=partial,
        block_size=rules.chunk_block([group.block_size for group in stated], states), max_model_len=max_model_len,
        speculation=speculation, num_reprefillable_tokens=max(0, ahead - 1),
        mamba_shared_prefix_checkpoint=(
            opts.enable_mamba_shared_prefix_checkpoint and bool(eagle | drops) and partial and ahead <= 1),
        need_mamba_block_aligned_split=bool(states),
    )  # fmt: skip


def _groups(rules: Rules, opts: Options, spec: Spec, eagle: bool) -> list[KVCacheGroupSpec]:
    """Return the groups that the options state, or those of the model."""
    if opts.kv_groups:
        return stated_groups(opts.kv_groups, spec)
    if packed := compressed_groups(opts):
        words = [group.word if eagle else group.word.removesuffix("e") for group in packed]
        return stated_groups(" ".join(words), spec, empty=True)
    groups = real_groups(opts)
    is_known = eagle and rules.drafter_group(opts.speculative_method)
    made = made_groups(layer_blocks(rules, opts), spec, is_known, groups)
    return stated_groups(made, spec, empty=groups is not None)


def _endless(groups: Sequence[KVCacheGroupSpec], tokens: int) -> list[KVCacheGroupSpec]:
    """Return groups in which a block of states holds a whole request of so many tokens."""
    return [group._replace(block_size=tokens) if group.kind == "mamba" else group for group in groups]


def _speculation(rules: Rules, opts: Options) -> Speculation:
    """Return the tokens that a drafter adds to chunks and hashes."""
    found: Speculation = rules.speculation(Drafter(
        method=opts.speculative_method,
        num_speculative_tokens=opts.num_speculative_tokens,
        use_multi_module_mtp=opts.multi_module_mtp,
        enable_prefix_caching=opts.enable_prefix_caching,
        disable_lookahead_block_hashes=opts.disable_lookahead_block_hashes or opts.num_cpu_chunks > 0,
        disable_eagle_block_drop=opts.disable_eagle_block_drop,
    ))  # fmt: skip
    return found


def _states_at_ends(rules: Rules, opts: Options) -> bool:
    """True if states are kept where chunks end. Raise NotInBuild for a mode that the version does not have."""
    if opts.mamba_cache_mode == NONE:
        return False
    at_ends = rules.states_align(opts.mamba_cache_mode)
    if at_ends is None:
        raise NotInBuild(f"mamba_cache_mode {opts.mamba_cache_mode} does not exist in {rules.name}", hint="align")
    return bool(at_ends)


def _hash_block_size(rules: Rules, opts: Options, groups: list[KVCacheGroupSpec], aligned: bool) -> int:
    """Return the tokens of a hash. ``aligned``: states are kept where chunks end."""
    blocks = [group.block_size for group in groups]
    states = [group.block_size for group in groups if group.kind == "mamba"]
    active = opts.hashing and (aligned or not states)
    if active and len({*blocks}) > 1 and not rules.hashes_beside_states(states, min(blocks)):
        raise NotInBuild(f"{rules.name} does not start with blocks of states that are larger than others",
                         hint="blocks of one size")  # fmt: skip
    return rules.hash_block_size(blocks, opts.prefix_match_unit, active)


def _admission_cap(rules: Rules, opts: Options, group: KVCacheGroupSpec, max_model_len: int) -> int:
    """Return the most blocks of a group that a request holds."""
    return rules.admission_cap(Admission(
        kind=group.kind,
        window=group.window,
        max_in_flight_tokens=max_in_flight_tokens(opts),
        max_num_batched_tokens=opts.max_num_batched_tokens,
        max_model_len=max_model_len,
        block_size=group.block_size,
    ))  # fmt: skip


def max_in_flight_tokens(opts: Options) -> int:
    """Return the most tokens of the steps whose results are not processed."""
    return opts.max_num_batched_tokens * (2 if opts.async_scheduling else 1)


def check_enough_kv_cache_memory(rules: Rules, opts: Options, config: KVCacheConfig) -> None:
    """Raise NotInBuild if a maximum length is given and the pool, beside the null block, does not hold a request of it:
    the server does not start then, although its scheduler would run."""
    if opts.max_model_len <= 0:
        return
    needed = blocks_of_longest(rules, opts, config.kv_cache_groups, config.max_model_len)
    if needed >= opts.num_gpu_blocks:
        raise NotInBuild(f"the server does not start: a request of max_model_len, {config.max_model_len} tokens, needs "
                         f"{needed} blocks, and {opts.num_gpu_blocks - 1} are usable",
                         hint="a larger pool, or max_model_len")  # fmt: skip


def blocks_of_longest(rules: Rules, opts: Options, groups: Sequence[KVCacheGroupSpec], max_model_len: int) -> int:
    """Return the blocks of a request of the maximum length, as the server counts them at its start."""
    needed = 0
    for group in groups:
        if group.kind == "mamba":
            needed += states_of_request(opts)
        else:
            needed += _admission_cap(rules, opts, group, max_model_len) or -(-max_model_len // group.block_size)
    return needed


def states_of_request(opts: Options) -> int:
    """Return the blocks of a request in a group of states."""
    inside = 1 if opts.mamba_prefill_checkpoint_alignment else 0
    return (2 + inside if opts.enable_prefix_caching else 1) + opts.num_speculative_tokens


def _check_offload(rules: Rules, opts: Options, groups: list[KVCacheGroupSpec], unit: int) -> None:
    """Raise NotInBuild for CPU offload in a version, or with groups, for which it is not modelled, and for sizes with
    which the server does not start. ``unit``: tokens of a hash."""
    if not opts.num_cpu_chunks:
        return
    kinds = {group.kind for group in groups}
    if opts.decode_context_parallel_size > 1 or not kinds <= {*rules.offloaded_kinds()}:
        raise NotInBuild("CPU offload of blocks that several devices share is not modelled", hint="num_cpu_chunks 0")
    _check_offloaded_sizes(opts, groups, unit)


def _check_offloaded_sizes(opts: Options, groups: list[KVCacheGroupSpec], unit: int) -> None:
    """Raise NotInBuild for sizes with which CPU offload is not modelled, or the server does not start."""
    kinds = {group.kind for group in groups}
    sizes = {group.block_size for group in groups}
    states = {group.block_size for group in groups if group.kind == "mamba"}
    interval = opts.prefix_cache_retention_interval
    if opts.enable_prefix_caching and len(states) > 1:
        raise NotInBuild("the server does not start with CPU offload and states in blocks of different sizes")
    if opts.enable_prefix_caching and states and len(sizes) == 1 and unit < max(sizes) and opts.blocks_per_chunk == 1:
        raise NotInBuild("CPU offload of the last part of a block of states is not modelled",
                         hint="prefix_match_unit 0")  # fmt: skip
    if interval == DENSE and kinds & {"swa", "mamba"}:
        raise NotInBuild("CPU offload of windows or states that are all kept is not modelled",
                         hint="prefix_cache_retention_interval 0")
    sparse = [group.block_size * opts.blocks_per_chunk for group in groups if group.kind in ("swa", "chunked", "mamba")]
    if interval > 0 and any(interval % size for size in sparse):
        raise NotInBuild(f"prefix_cache_retention_interval {interval} is not a multiple of the chunks in CPU memory")


def maximum_length(rules: Rules, opts: Options, groups: Sequence[KVCacheGroupSpec]) -> int:
    """Return the given maximum length of a request [tokens]; ``UNLIMITED`` if it is not known; the longest that the
    pool holds if the server chooses it. Raise NotInBuild if the pool does not hold a request of any length."""
    if opts.max_model_len > 0:
        return opts.max_model_len
    usable = opts.num_gpu_blocks - 1
    if blocks_of_longest(rules, opts, groups, 1) > usable:
        raise NotInBuild(f"{opts.num_gpu_blocks} blocks do not hold one request", hint="num_gpu_blocks, max_model_len")
    if opts.max_model_len != FITTING:
        return UNLIMITED
    return bisect_right(range(UNLIMITED), usable, key=lambda n: blocks_of_longest(rules, opts, groups, n)) - 1


def attention_groups(groups: list[KVCacheGroupSpec], drops: set[int]) -> tuple[SpecGroup, ...]:
    """Return the groups that are looked up together: those of equal kind, size and block."""
    kinds: dict[tuple[str, int, int], list[int]] = {}
    for group in groups:
        kinds.setdefault((group.kind, group.window, group.block_size), []).append(group.group_id)
    found = [SpecGroup(
        group_ids=members,
        is_full_attention=kind in FULL,
        is_mamba=kind == "mamba",
        block_size=block,
        window=window,
        use_eagle=not drops.isdisjoint(members),
    ) for (kind, window, block), members in kinds.items()]  # fmt: skip
    return tuple(sorted(found, key=lambda kind: not kind.is_full_attention))


def check_sizes(opts: Options, groups: list[KVCacheGroupSpec], step: int, ahead: int) -> None:
    """Raise NotInBuild for options with which this release does not start."""
    interval = opts.prefix_cache_retention_interval
    sparse = any(group.kind in ("swa", "mamba") for group in groups)
    if interval > 0 and not sparse:
        raise NotInBuild("prefix_cache_retention_interval needs a layer with a window or a state")
    if interval > 0 and interval % step:
        multiple = f"{step}"
        if not opts.enable_prefix_caching:
            multiple = "the context, which is a state's block without prefix caching"
        raise NotInBuild(f"prefix_cache_retention_interval {interval} is not a multiple of {multiple}")
    if opts.enable_prefix_caching and step < ahead:
        raise NotInBuild(f"num_speculative_tokens {ahead} exceeds the common block of {step} tokens")
    if any(group.kind == "chunked" and (group.use_eagle or group.block_size != step) for group in groups):
        raise NotInBuild("chunked attention with the block drop or unequal blocks is not supported by the server")
