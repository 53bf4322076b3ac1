"""Cells of the table: rule sets by kinds of model by settings. Missing features of an engine are n/a."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple

from cachesim.engines.registry import engine_of

MODELS = {"attention": "llama-3", "window": "gpt-oss", "recurrent": "mamba-2", "hybrid": "qwen3-next"}
"""Kind of model -> the real model whose layers and sizes represent it."""

MODELS_IN_LAYERS = {"attention": "A", "window": "W2 A", "recurrent": "S", "hybrid": "GA"}

RULE_SETS = {
    "latest": "llama_cpp@b11549", "repaired": "llama_cpp@b11549-repaired", "b10587": "llama_cpp@b10587",
    "pr24143": "llama_cpp@pr24143-on-b10587", "24035-v3": "llama_cpp@24035-v3", "b9765": "llama_cpp@b9765",
    "b6160": "llama_cpp@b6160", "ik main": "ik_llama@main", "mlx 0.32.2": "mlx_lm@0.32.2",
}
"""Row of the table -> rule set."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "default": {}, "ctx-checkpoints 8": {"ctx_checkpoints": 8}, "ctx-checkpoints 128": {"ctx_checkpoints": 128},
    "checkpoint-min-step 0": {"checkpoint_min_step": 0}, "cache-ram 0": {"cache_ram": 0},
    "cache-ram -1": {"cache_ram": -1}, "-np 4 -kvu": {"parallel": 4, "kv_unified": True},
}  # fmt: skip
WITHOUT = "ctx-checkpoints 0"
"""Setting for only the newest rule set: no checkpoints."""


TOGETHER = 4
"""Number of sessions on a server, in the table of shared servers."""

SHARED: Mapping[str, Mapping[str, Any]] = {
    "default": {}, "cache-ram -1": {"cache_ram": -1}, "-np 1": {"parallel": 1},
    "-np 1, cache-ram -1": {"parallel": 1, "cache_ram": -1}, "-np 2": {"parallel": 2},
    "-np 2, cache-ram -1": {"parallel": 2, "cache_ram": -1}, "-np 4": {"parallel": 4},
    "-np 4, cache-ram 0": {"parallel": 4, "cache_ram": 0},
}  # fmt: skip
RULES_SHARED = ("latest", "repaired", "b10587", "ik main", "mlx 0.32.2")


RULES_BLOCKS = {"vllm 0.33.0": "vllm@0.33.0", "vllm 0.31.0": "vllm@0.31.0"}
"""Row of the table of servers with a block pool -> rule set."""
_POOL = 2**22                         # tokens of a pool that is never full
_LARGE = {"block_size": 528, "num_gpu_blocks": _POOL // 528}
BLOCKS: Mapping[str, Mapping[str, Any]] = {
    "block size 528": _LARGE,
    "528, retention interval -1": {**_LARGE, "prefix_cache_retention_interval": -1},
    "528, retention interval 8,448": {**_LARGE, "prefix_cache_retention_interval": 8448},
    "528, shared prefix checkpoints": {**_LARGE, "enable_mamba_shared_prefix_checkpoint": True},
    "528, steps of 8,448 tokens": {**_LARGE, "max_num_batched_tokens": 8448},
    "528, pool of 528,000 tokens": {"block_size": 528, "num_gpu_blocks": 1001},
    "block size 16": {"block_size": 16, "num_gpu_blocks": _POOL // 16},
    "attention 16, states 528": {"block_size": 16, "mamba_block_size": 528, "num_gpu_blocks": _POOL // 16},
}  # fmt: skip
MODES: Mapping[str, Mapping[str, Any]] = {
    "block size 528": _LARGE, "528, Mamba mode all": {**_LARGE, "mamba_cache_mode": "all"},
}
"""Settings of 0.31.0, the last release with the Mamba mode `all`."""
SETTINGS_BLOCKS = {"vllm 0.33.0": BLOCKS, "vllm 0.31.0": MODES}
"""Row of the table -> its settings. 528 is the block size that hybrid models of a few billion parameters get, because
the page of a recurrent state is as large as that of so many tokens. Scaled by 16, both sizes are whole."""

RULES_TREES = {"sglang 0.5.23": "sglang@0.5.23"}
"""The same, of servers with a radix tree."""
_TREE = {"max_total_tokens": _POOL, "max_mamba_cache_size": 4096}
_BUFFER = {**_TREE, "mamba_radix_cache_strategy": "extra_buffer"}
TREES: Mapping[str, Mapping[str, Any]] = {
    "pages of 1, chunks of 2,048": _TREE,
    "chunks of 8,192": {**_TREE, "chunked_prefill_size": 8192},
    "extra buffer": _BUFFER,
    "extra buffer, pages of 64": {**_BUFFER, "page_size": 64},
    "extra buffer, states every 1,024": {**_BUFFER, "mamba_track_interval": 1024},
    "128 states": {**_TREE, "max_mamba_cache_size": 128},
    "pool of 524,288 tokens": {**_TREE, "max_total_tokens": 2**19},
    "pool of 524,288, slru": {**_TREE, "max_total_tokens": 2**19, "radix_eviction_policy": "slru"},
}  # fmt: skip
SETTINGS_TREES = {"sglang 0.5.23": TREES}
"""Row of the table of servers with a radix tree -> its settings."""
OF_STATES = frozenset(name for name in TREES if "buffer" in name or "states" in name)
"""Settings that change nothing for a model without recurrent states."""


class Column(NamedTuple):
    """A column: a cell of every session."""

    rules: str
    kind: str
    setting: str
    given: Mapping[str, Any]

    @property
    def profile(self) -> str:
        """Name of the rule set."""
        return {**RULE_SETS, **RULES_BLOCKS, **RULES_TREES}[self.rules]


def has(profile: str, given: Mapping[str, Any]) -> bool:
    """True if the engine has all of these options."""
    manual = engine_of(profile).manual
    return all(manual.flag(name) is not None for name in given)


def knows(profile: str, kind: str) -> bool:
    """True if the engine has this model."""
    return MODELS[kind] in engine_of(profile).manual.known


CHECKPOINTS = {"ctx_checkpoints", "checkpoint_min_step"}


def as_default(profile: str, kind: str, given: Mapping[str, Any]) -> bool:
    """True if these options give the default server: either start-up turns them into the defaults (four slots with a
    unified cache), or they are checkpoint options for a model of attention layers, which has no checkpoints. Such a
    cell copies the default setting and is not run."""
    if not given or (kind == "attention" and set(given) <= CHECKPOINTS):
        return True
    engine = engine_of(profile)
    both = (engine.start(profile, MODELS_IN_LAYERS[kind], options, "none") for options in ({}, given))
    plain, other = (getattr(getattr(server, "core", server), "settings", server) for server in both)
    return bool(plain == other)


def columns_shared() -> Iterator[Column]:
    """Yield the cells of servers with several sessions or sub-agents: hybrid model only."""
    for setting, given in SHARED.items():
        for rules in RULES_SHARED:
            if has(RULE_SETS[rules], given):
                yield Column(rules, "hybrid", setting, given)


def columns_blocks() -> Iterator[Column]:
    """Yield the cells of servers with a block pool or a radix tree, the hybrid model first. Without states, a tree has
    no settings for them."""
    for kind in sorted(MODELS, key=lambda kind: kind != "hybrid"):
        for rules, settings in (SETTINGS_BLOCKS | SETTINGS_TREES).items():
            yield from (Column(rules, kind, setting, given) for setting, given in settings.items()
                        if kind in ("hybrid", "recurrent") or setting not in OF_STATES)  # fmt: skip


def columns() -> Iterator[Column]:
    """Yield every cell; settings vary slowest, so that the first settings are completed first."""
    for setting, given in SETTINGS.items():
        for rules, profile in RULE_SETS.items():
            if has(profile, given):
                for kind in (one for one in MODELS if knows(profile, one)):
                    yield Column(rules, kind, setting, given)
        if setting == "default":
            for kind in MODELS:
                yield Column("latest", kind, WITHOUT, {"ctx_checkpoints": 0})
