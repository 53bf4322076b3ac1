"""Groups of layers with their block sizes, the configuration of a server, and where states inside chunks are kept.

Source: vLLM vllm/v1/kv_cache_interface.py (0.33.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cachesim.engines.vllm.flags import Options
from cachesim.engines.vllm.rules.lookup import SpecGroup
from cachesim.engines.vllm.rules.schedule import Speculation
from cachesim.engines.vllm.rules.states import StateBoundary, StateExport

if TYPE_CHECKING:
    from cachesim.engines.vllm.profiles import Rules

FULL = ("full", "rswa")


class KVCacheGroupSpec(NamedTuple):
    """A group of layers that store alike."""

    group_id: int
    kind: str                       # full, swa, rswa, chunked or mamba
    block_size: int                 # tokens of a block, over all ranks
    window: int                     # window or chunk [tokens]
    is_eagle_group: bool            # the drafter's layers are in it
    layers: tuple[int, ...]
    use_eagle: bool = False         # its lookups drop a block
    align: bool = False             # its states are found again
    max_admission_blocks_per_request: int = 0       # most blocks that a request holds, 0 = no limit

    def first_read(self, position: int) -> int:
        """Return the first position that the token at ``position`` reads."""
        if self.kind == "chunked":
            return position // self.window * self.window
        return max(0, position - self.window + 1) if self.kind == "swa" else 0


class KVCacheConfig(NamedTuple):
    """The groups, and sizes [tokens]."""

    kv_cache_groups: tuple[KVCacheGroupSpec, ...]
    attention_groups: tuple[SpecGroup, ...]         # groups that are looked up together, full attention first
    scheduler_block_size: int                       # common multiple of the blocks
    hash_block_size: int                            # tokens of a hash
    cache_hit_alignment_tokens: int                 # a hit is a multiple of it
    enable_partial_hash_hits: bool                  # a hit may end inside a block
    block_size: int                                 # block on which chunks end
    max_model_len: int
    speculation: Speculation
    num_reprefillable_tokens: int                   # last tokens that a drafter of several modules evaluates again
    mamba_shared_prefix_checkpoint: bool            # chunks end exactly where prompts part
    need_mamba_block_aligned_split: bool

    def aligned_tokens(self, num_tokens: int) -> int:
        """Return the tokens up to the last common end of the blocks of all groups."""
        return num_tokens - num_tokens % self.scheduler_block_size

    @property
    def has_mamba_layers(self) -> bool:
        """True if a group keeps states."""
        return any(group.kind == "mamba" for group in self.kv_cache_groups)


class VllmConfig(NamedTuple):
    """Configuration of a server, which all its parts read."""

    options: Options
    kv_cache_config: KVCacheConfig


def get_mamba_prefill_checkpoint_position(rules: Rules, vllm_config: VllmConfig, num_tokens: int) -> int:
    """Return the length below ``num_tokens`` whose state inside a chunk can be found."""
    config = vllm_config.kv_cache_config
    return rules.checkpoint(StateBoundary(
        num_tokens=num_tokens,
        hash_block_size=config.hash_block_size,
        cache_hit_alignment_tokens=config.cache_hit_alignment_tokens,
        drop_eagle_block=config.speculation.use_eagle_block_drop,
        num_hash_lookahead_tokens=config.speculation.num_hash_lookahead_tokens,
    ))  # fmt: skip


def last_cache_position(rules: Rules, vllm_config: VllmConfig, num_tokens: int, unit: int,
                        drop_eagle_block: bool | None = None) -> int:  # fmt: skip
    """Return the last multiple of ``unit`` at which a prompt can resume. ``drop_eagle_block``: lookups drop a block,
    None = as the drafter requires."""
    speculation = vllm_config.kv_cache_config.speculation
    if drop_eagle_block is None:
        drop_eagle_block = speculation.use_eagle_block_drop
    return rules.last_boundary(num_tokens, unit, drop_eagle_block, speculation.num_hash_lookahead_tokens)


def tail_boundary(rules: Rules, vllm_config: VllmConfig, num_prompt_tokens: int,
                  drop_eagle_block: bool | None = None) -> int:  # fmt: skip
    """Return the last boundary of a hash at which a prompt can resume inside a block. ``drop_eagle_block``: see
    ``last_cache_position``."""
    unit = vllm_config.kv_cache_config.hash_block_size
    end = last_cache_position(rules, vllm_config, num_prompt_tokens, unit, drop_eagle_block)
    return int(rules.tail_length(end, num_prompt_tokens // unit * unit))


def is_mamba_prefill_checkpoint_valid(rules: Rules, vllm_config: VllmConfig, *, query_start: int, query_end: int,
                                      checkpoint_position: int, mamba_block_size: int) -> bool:  # fmt: skip
    """True if the kernels can export the state after ``checkpoint_position`` tokens in a chunk."""
    return rules.state_inside(StateExport(
        query_start=query_start,
        query_end=query_end,
        checkpoint_position=checkpoint_position,
        hash_block_size=vllm_config.kv_cache_config.hash_block_size,
        mamba_block_size=mamba_block_size,
        checkpoint_alignment=vllm_config.options.mamba_prefill_checkpoint_alignment,
    ))  # fmt: skip
