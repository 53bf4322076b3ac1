"""Groups of layers with their block sizes, and the sizes that follow from them.

Layers that store alike form a group; the groups of a model have the same number of layers. Source: vLLM
vllm/v1/core/kv_cache_planning.py, kv_cache_utils.py resolve_kv_cache_block_sizes (0.33.0).
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cachesim.base.errors import BadInput, NotInBuild, quoted
from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.rules.lookup import Sorted
from cachesim.model import Spec

KINDS = {"A": "full", "W": "swa", "R": "rswa", "K": "chunked", "S": "mamba"}
FULL = ("full", "rswa")
_WORD = re.compile(r"([AWRKS])(\d{0,7})/([1-9]\d{0,8})(e?)")


class Group(NamedTuple):
    """A group of layers. ``block``: tokens of its blocks, over all ranks; ``size``: window or chunk [tokens];
    ``eagle``: the drafter's layers are in it; ``drop``: its lookups drop a block; ``align``: its states are found
    again; ``cap``: most blocks that a request holds, 0 = no limit."""

    number: int
    kind: str
    block: int
    size: int
    eagle: bool
    layers: tuple[int, ...]
    drop: bool = False
    align: bool = False
    cap: int = 0


class Layout(NamedTuple):
    """The groups, and sizes [tokens]: ``step``: common multiple of the blocks, ``unit``: tokens of a hash, ``align``:
    a hit is a multiple of it, ``smallest``: block on which chunks end. ``kinds``: groups that are looked up
    together, those with full attention first."""

    groups: tuple[Group, ...]
    kinds: tuple[Sorted, ...]
    step: int
    unit: int
    align: int
    partial: bool
    smallest: int
    most: int
    spec: Any
    late: int
    shared_checkpoint: bool
    aligned: bool


def stated_groups(text: str, spec: Spec) -> list[Group]:
    """Read the option ``kv_groups``. Raises BadInput for a bad word, and for layers without a group."""
    left, words, groups = layers_by_kind(spec), text.split(), list[Group]()
    for i, word in enumerate(words):
        found = _WORD.fullmatch(word)
        if found is None:
            raise BadInput(f"kv_groups: {quoted(word)} is not a group", hint="for example A/16 W8/16 S/64e")
        letter, size, block, eagle = found.groups()
        mine = left.get(("A", 0) if letter == "R" else (letter, int(size or 0)), [])
        take = -(-len(mine) // [other.partition("/")[0] for other in words[i:]].count(word.partition("/")[0]))
        layers, mine[:take] = tuple(mine[:take]), []
        groups.append(Group(i, KINDS[letter], int(block), int(size or 0), bool(eagle), layers))
    if not groups or any(left.values()) or not all(group.layers for group in groups):
        raise BadInput(f"kv_groups {quoted(text)} does not fit the layers of {quoted(spec.notation)}")
    return groups


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


def made_groups(opts: Options, spec: Spec, eagle: bool, endless: int) -> str:
    """Return the groups of a model as ``kv_groups`` states them: of each kind as many as its layers fill, with as many
    layers in each as the rarest kind has."""
    kinds, words = layers_by_kind(spec), list[str]()
    per = min(map(len, kinds.values()))
    for (letter, size), layers in sorted(kinds.items(), key=lambda pair: pair[0][0] != "A"):
        states = (opts.mamba_block_size or opts.block_size) if opts.enable_prefix_caching else endless
        block = states if letter == "S" else opts.block_size
        words += [f"{letter}{size or ''}/{block}"] * -(-len(layers) // per)
    return " ".join([words[0] + "e" * eagle, *words[1:]])


def layout(rules: Any, opts: Options, spec: Spec) -> Layout:
    """Return the layout of a server. Raises BadInput for sizes with which the server does not start."""
    caching, ranks = opts.enable_prefix_caching, opts.decode_context_parallel_size
    drafts = rules.speculation(opts.speculative_method, opts.num_speculative_tokens, opts.multi_module_mtp, caching,
                               opts.disable_lookahead_block_hashes)
    most = opts.max_model_len or longest(opts, spec)
    stated = stated_groups(opts.kv_groups or made_groups(opts, spec, drafts.ahead > 0, most), spec)
    groups = [one if one.kind == "mamba" else one._replace(block=one.block * ranks) for one in stated]
    blocks = [one.block for one in groups]
    step, at_ends = rules.scheduler_block(blocks), rules.states_align(opts.mamba_cache_mode)
    if at_ends is None:
        raise NotInBuild(f"mamba_cache_mode {opts.mamba_cache_mode} does not exist in {rules.name}", hint="align")
    aligned = caching and at_ends
    unit = rules.hash_unit(blocks, opts.prefix_match_unit,
                           opts.hashing and (aligned or all(one.kind != "mamba" for one in groups)))
    if opts.hashing and any(block % unit for block in blocks):
        raise BadInput(f"prefix_match_unit {unit} does not divide the blocks of {quoted(opts.kv_groups or spec)}")
    states = [one.block for one in groups if one.kind == "mamba" and aligned]
    windows = [one.block for one in groups if one.kind in ("swa", "chunked")]
    partial = caching and len(groups) > 1 and rules.partial_hits(states, windows, unit, ranks > 1)
    eagle = {one.number for one in groups if one.eagle}
    drops = (eagle or set(range(len(groups)))) if drafts.drop else set()
    in_flight = opts.max_num_batched_tokens * (2 if opts.async_scheduling else 1)
    kinds = sorted_kinds(rules, groups, drops, caching)
    dropping = {group for kind in kinds if kind.drop for group in kind.groups}
    groups = [one._replace(drop=one.number in dropping, align=one.kind == "mamba" and aligned,
                           cap=rules.cap(one.kind, one.size, in_flight, most, one.block)) for one in groups]
    late = max(0, drafts.ahead - 1)
    shared = opts.enable_mamba_shared_prefix_checkpoint and bool(eagle | drops) and partial and not late
    offload = (rules.wait_for_chunks, rules.load_chunks, rules.reserve_for_prompts, rules.offered, rules.store_chunks)
    offloaded = rules.offloaded_kinds() if rules.offloaded_kinds and None not in offload else ()
    if opts.num_cpu_chunks and (ranks > 1 or any(one.kind not in offloaded for one in groups)):
        raise (BadInput if offloaded else NotInBuild)(
            f"CPU offload with these groups is not modelled in {rules.name}", hint="num_cpu_chunks 0")
    check_sizes(opts, groups, step, drafts.ahead if eagle | drops else 0)
    return Layout(tuple(groups), kinds, step, unit, unit if partial else step, partial,
                  rules.chunk_block([one.block for one in stated], states), most, drafts, late, shared, bool(states))


def longest(opts: Options, spec: Spec) -> int:
    """Return the most tokens that fit beside the null block and the states. Raises BadInput if no request fits."""
    kinds = layers_by_kind(spec)
    per = min(map(len, kinds.values()))
    groups = {key: -(-len(layers) // per) for key, layers in kinds.items()}
    states = groups.pop(("S", 0), 0) * (3 + opts.num_speculative_tokens)
    blocks = (opts.num_gpu_blocks - 1 - states) // max(1, sum(groups.values()))
    if blocks < 1:
        raise BadInput(f"{opts.num_gpu_blocks} blocks do not hold one request", hint="num_gpu_blocks, max_model_len")
    return blocks * opts.block_size if groups else 1 << 20


def sorted_kinds(rules: Any, groups: list[Group], drops: set[int], caching: bool) -> tuple[Sorted, ...]:
    """Return the groups that are looked up together: those of equal kind, size and block."""
    kinds: dict[tuple[str, int, int], list[int]] = {}
    for one in groups if caching else ():
        kinds.setdefault((one.kind, one.size, one.block), []).append(one.number)
    made = [Sorted(members, getattr(rules, f"find_{FULL[0] if kind in FULL else kind}"), kind in FULL, kind == "mamba",
                   block, size, not drops.isdisjoint(members)) for (kind, size, block), members in kinds.items()]
    return tuple(sorted(made, key=lambda kind: not kind.full))


def check_sizes(opts: Options, groups: list[Group], step: int, ahead: int) -> None:
    """Raise BadInput for options with which the server does not start."""
    interval = opts.prefix_cache_retention_interval
    sparse = any(one.kind in ("swa", "mamba") for one in groups)
    if interval > 0 and not (sparse and interval % step == 0):
        raise BadInput(f"prefix_cache_retention_interval {interval} is not a multiple of {step}" if sparse else
                       "prefix_cache_retention_interval needs a layer with a window or a state")
    if opts.enable_prefix_caching and step < ahead:
        raise BadInput(f"num_speculative_tokens {ahead} exceeds the common block of {step} tokens")
    if any(one.kind == "chunked" and (one.drop or one.block != step) for one in groups):
        raise BadInput("chunked attention with the block drop or unequal blocks is not supported by the server")
