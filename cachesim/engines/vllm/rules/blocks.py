"""Rules of the block pool, and of the block tables: blocks that a request needs, no longer needs, and publishes."""

from __future__ import annotations

from math import lcm
from typing import Hashable, NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.vllm.core.block_pool import BACK, FRONT
from cachesim.engines.vllm.rules.lookup import window_blocks
from cachesim.engines.vllm.rules.sources import (
    coordinator,
    groups,
    interface,
    manager,
    planning,
    platform,
    pool,
    scheduler,
    utils,
)

DENSE = -1                   # `None` of the real option: every block is kept
KERNEL_BLOCK = 16            # smallest block of the attention kernels
LATENT_BLOCK = 128           # and of those that read latent rows beside states


class Pages(NamedTuple):
    """Pages of a model with states."""

    attn_page_size_1_token: int   # bytes of a token in a layer of attention
    mamba_page_size: int          # bytes of a layer's state
    block_size: int               # tokens of a block as given
    mamba_prefill_checkpoint_alignment: int = 0     # grid of states that are stored inside a chunk [tokens], 0 = none
    use_mla: bool = False         # a token has one row for all heads, without values


@rule("VL-SIZE-ATTENTION-BLOCK", Role.SETUP, platform("_align_hybrid_block_size"))
def attention_block(pages: Pages) -> int:
    """Return the tokens of a block whose page holds a state: a multiple of the given block, the grid and that of the
    kernels."""
    smallest = LATENT_BLOCK if pages.use_mla else KERNEL_BLOCK
    unit = lcm(max(smallest, pages.block_size), pages.mamba_prefill_checkpoint_alignment or 1)
    needed = unit * -(-pages.mamba_page_size // (unit * pages.attn_page_size_1_token))
    return max(pages.block_size, -(-needed // KERNEL_BLOCK) * KERNEL_BLOCK)


@rule("VL-SIZE-ATTENTION-BLOCK.ROWS", Role.SETUP, platform("_align_hybrid_block_size", "0.26.0"), until="#50000")
def attention_block_of_rows(pages: Pages) -> int:
    """Return the tokens of a block whose page holds a state: like `VL-SIZE-ATTENTION-BLOCK`, also in a model with
    latent rows, whose kernels later need larger blocks."""
    return attention_block(pages._replace(use_mla=False))


@rule("VL-SIZE-PAGE-BLOCK", Role.SETUP, planning("unify_kv_cache_spec_page_size"))
def page_block(block: int, token: int, largest: int) -> int:
    """Return the tokens of a block in layers with smaller rows than others: as many as fill the page of the
    ``largest`` rows, or the same number if they do not fill it evenly. ``token``, ``largest``: bytes of a token."""
    return block * (largest // token) if largest % token == 0 else block


@rule("VL-HASH-UNIT", Role.MEMORY, utils("hash_block_tokens", spec="V-HASH-1"))
def hash_block_tokens(before: int, tokens: Sequence[int], lora: str, salt: str) -> Hashable:
    """Return the hash of a unit, equal for equal units only: its tokens, the hash before it, the adapter, and in the
    first unit the salt. A token of an image stands for its identifier and a place in it. With lookahead hashes
    ``tokens`` include those that follow."""
    return before, lora, salt if before < 0 else "", *tokens


@rule("VL-POOL-EVICT", Role.DROP, pool("get_new_blocks _maybe_evict_cached_block", spec="V-POOL-5"))
def evict(block: int, tokens: int) -> Decision:
    """Return the number of a block taken from the front of the free list. It loses its keys, of a prefix of
    ``tokens``."""
    return Decision(block, {"tokens": tokens})


@rule("VL-POOL-FREE-SIDE", Role.MEMORY, pool("free_blocks", spec="V-POOL-7"))
def free_side(keyed: bool) -> str:
    """Return the side at which a block without users joins the free list: the back if it can be found, else the
    front."""
    return BACK if keyed else FRONT


@rule("VL-POOL-FREE-SIDE.UNCACHED", Role.MEMORY, pool("free_blocks"))
def free_side_uncached(keyed: bool) -> str:
    """Return the side at which a block without users joins the free list if no prefix is cached: the front, so that it
    is used again soon."""
    return FRONT


@rule("VL-POOL-FREE-SIDE.UNCACHED.BACK", Role.MEMORY, pool("free_blocks", "0.27.1"), since="#48017", until="#51482")
def free_side_uncached_back(keyed: bool) -> str:
    """Return the side at which a block without users joins the free list if no prefix is cached: the back."""
    return BACK


@rule("VL-POOL-ZERO", Role.MEMORY, groups("SingleTypeKVCacheManager.__init__ _record_new_block_ids"))
def zero_rows(kind: str) -> bool:
    """True if the worker zeroes the new blocks of a group, in a model with states: those of every attention."""
    return kind != "mamba"


@rule("VL-POOL-ZERO.FULL", Role.MEMORY, groups("SingleTypeKVCacheManager.__init__ _record_new_block_ids", "0.27.1"))
def zero_full(kind: str) -> bool:
    """True if the worker zeroes the new blocks of a group, in a model with states: those of full attention, but not of
    windows."""
    return kind == "full"


class Admission(NamedTuple):
    """A group that may have a window or chunk."""

    kind: str
    window: int                 # window or chunk [tokens]
    max_in_flight_tokens: int   # most tokens of the steps in flight
    max_model_len: int          # most tokens of a request
    block_size: int             # tokens of a block
    max_num_batched_tokens: int = 0         # most tokens of a step


@rule("VL-SIZE-ADMISSION-CAP", Role.SETUP, interface("max_admission_blocks_per_request", spec="V-SIZE-10"))
def admission_cap(ask: Admission) -> int:
    """Return the most blocks that a request of a window or chunk group ever holds, 0 = no limit."""
    if ask.kind == "swa":
        return -(-min(ask.window - 1 + ask.max_in_flight_tokens, ask.max_model_len) // ask.block_size) + 1
    if ask.kind == "chunked":
        return -(-min(ask.window + ask.max_in_flight_tokens, ask.max_model_len) // ask.block_size)
    return 0


@rule("VL-SIZE-ADMISSION-CAP.STEP", Role.SETUP,
      interface("max_admission_blocks_per_request", "0.25.1", spec="V-SIZE-10"), until="#47728")
def admission_cap_step(ask: Admission) -> int:
    """Return the most blocks that a request of a window or chunk group ever holds: like `VL-SIZE-ADMISSION-CAP`, for
    the tokens of a single step."""
    return admission_cap(ask._replace(max_in_flight_tokens=ask.max_num_batched_tokens))


@rule("VL-FREE-SETTLED", Role.REMOVE, manager("allocate_slots remove_skipped_blocks"))
def settled_tokens(computed: int, in_flight: int) -> int:
    """Return the tokens behind which blocks that are no longer read may be freed: the computed ones without those of
    steps in flight, which still read their windows."""
    return max(0, computed - in_flight)


@rule("VL-FREE-SETTLED.SCHEDULED", Role.REMOVE, manager("allocate_slots remove_skipped_blocks", "0.25.1"),
      until="#47728")
def scheduled_tokens(computed: int, in_flight: int) -> int:
    """Return the tokens behind which blocks that are no longer read may be freed: all computed ones, although a step in
    flight may read them, or reject its drafts."""
    return computed


@rule("VL-FREE-SKIPPED", Role.REMOVE, groups("get_num_skipped_tokens", spec="V-FREE-1"))
def skipped(kind: str, size: int, computed: int) -> int:
    """Return the tokens whose rows or states the next token does not read, after ``computed`` tokens."""
    if kind == "swa":
        return max(0, computed - size + 1)
    return computed // size * size if kind == "chunked" else computed - 1 if kind == "mamba" else 0


@rule("VL-FREE-REFERENCE-GAP", Role.REMOVE, groups("RSWAManager.remove_skipped_blocks", spec="V-FREE-2"))
def reference_gap(prompt: int, computed: int, window: int, block: int) -> tuple[int, int]:
    """Return the first block between prompt and reference window, and the last plus 1: blocks that no later token
    needs."""
    return -(-prompt // block), max(prompt, computed - window) // block


class BlockNeed(NamedTuple):
    """Storage that a request needs in a group of layers."""

    num_tokens: int                         # tokens to store
    block_size: int                         # tokens of a block
    num_req_blocks: int                     # blocks that the request holds
    num_new_computed_blocks: int            # further blocks that were found
    num_evictable_blocks: int               # found blocks without users
    num_skipped_blocks: int                 # blocks that the request does not need
    is_new_request: bool                    # the request holds no block yet
    has_partial_hit: bool                   # the hit ends inside a block, which is copied
    max_admission_blocks_per_request: int   # most blocks of the request, 0 = no limit


@rule("VL-ALLOC-BLOCKS", Role.NEED, groups("SingleTypeKVCacheManager.get_num_blocks_to_allocate", spec="V-ALLOC-1"))
def blocks_needed(ask: BlockNeed) -> int:
    """Return the free blocks that a request needs: for new tokens, for found blocks without users, and for the copy of
    a block that a hit ends in."""
    required = -(-ask.num_tokens // ask.block_size)
    required = min(required, ask.max_admission_blocks_per_request or required)
    if not ask.is_new_request:
        return max(required - ask.num_req_blocks, 0)
    num_local_computed_blocks = ask.num_new_computed_blocks + ask.num_req_blocks
    num_new_blocks = max(required - max(ask.num_skipped_blocks, num_local_computed_blocks), 0)
    if ask.has_partial_hit:
        num_new_blocks += 1
    return num_new_blocks + ask.num_evictable_blocks


class PublishableBlocks(NamedTuple):
    """Scheduled tokens of a request."""

    num_computed_tokens: int
    alignment_tokens: int           # a hit is a multiple of so many tokens
    block_size: int                 # tokens of a block
    use_eagle: bool                 # lookups drop a block
    num_reprefillable_tokens: int   # last tokens that a drafter of several modules evaluates again


@rule("VL-PUB-TOKENS", Role.PUBLISH, coordinator("get_num_cacheable_tokens", spec="V-PUB-1"))
def publishable(ask: PublishableBlocks) -> int:
    """Return the tokens whose blocks can be found from the moment they are scheduled."""
    final = max(0, ask.num_computed_tokens - ask.num_reprefillable_tokens)
    if ask.use_eagle and ask.num_computed_tokens // ask.alignment_tokens:
        return min(final, final // ask.alignment_tokens * ask.alignment_tokens + ask.block_size)
    return ask.num_computed_tokens // ask.alignment_tokens * ask.alignment_tokens


@rule("VL-PUB-TOKENS.ONE", Role.PUBLISH, coordinator("KVCacheCoordinator.get_num_cacheable_tokens", spec="V-PUB-1"))
def publishable_one(ask: PublishableBlocks) -> int:
    """Return the tokens whose blocks can be found: a single group publishes every computed block."""
    return max(0, ask.num_computed_tokens - ask.num_reprefillable_tokens)


@rule("VL-PUB-BOUNDARIES", Role.PLAN, coordinator("replay_boundaries", spec="V-PUB-3"))
def boundaries(prompt: int, step: int, drop: bool) -> list[int]:
    """Return the lengths [tokens] at which an equal or longer prompt can resume: before its last token, with the drop a
    block earlier."""
    return sorted({max((end // step - 1) * step, 0) for end in (prompt - 1, prompt)}) if drop else [prompt - 1]


@rule("VL-PUB-BOUNDARIES.END", Role.PLAN, groups("SingleTypeKVCacheManager.cache_blocks", "0.29.0", spec="V-PUB-3"),
      until="#54713")
def boundary_of_prompt(prompt: int, step: int, drop: bool) -> list[int]:
    """Return the length [tokens] at which an equal prompt can resume: before its last token, although a lookup with the
    drop needs the block before it."""
    return [prompt - 1]


@rule("VL-PUB-BOUNDARIES.JUNCTION", Role.PLAN, groups("SingleTypeKVCacheManager.cache_blocks", spec="V-PUB-3"))
def junction_ends(junction: int, block: int, drop: bool) -> list[int]:
    """Return the lengths [tokens] at which a sibling resumes: the junction, with the drop also a block earlier."""
    return [junction, junction - block] if drop else [junction]


@rule("VL-PUB-BOUNDARIES.JUNCTION.ONE", Role.PLAN,
      groups("SingleTypeKVCacheManager.cache_blocks", "0.32.0", spec="V-PUB-3"))
def junction_only(junction: int, block: int, drop: bool) -> list[int]:
    """Return the length [tokens] at which a sibling resumes: the junction, although a lookup with the drop needs the
    block before it."""
    return [junction]


@rule("VL-PUB-BOUNDARIES.JUNCTION.NONE", Role.PLAN,
      groups("SingleTypeKVCacheManager.cache_blocks", "0.25.1", spec="V-PUB-3"), until="#47782")
def junction_none(junction: int, block: int, drop: bool) -> list[int]:
    """Return the lengths [tokens] at which a sibling resumes: none is kept for it."""
    return []


@rule("VL-PUB-MASK.ALIGNMENT", Role.PLAN, groups("SingleTypeKVCacheManager.cache_blocks", spec="V-PUB-4"))
def mask_by_hits(hit: int, step: int) -> int:
    """Return the multiple [tokens] at which kept lengths end: that of a ``hit``. ``step``: common multiple of the
    groups' blocks."""
    return hit


@rule("VL-PUB-MASK.ALIGNMENT.STEP", Role.PLAN,
      groups("SingleTypeKVCacheManager.cache_blocks", "0.28.0", spec="V-PUB-4"))
def mask_by_step(hit: int, step: int) -> int:
    """Return the multiple [tokens] at which kept lengths end: the common multiple of the groups' blocks (``step``),
    also where a hit may end inside it."""
    return step


class PublicationMask(NamedTuple):
    """Complete blocks of a prompt, of which a group publishes some."""

    start_block: int                      # first complete block
    end_block: int                        # last complete block plus 1
    block_size: int                       # tokens of a block
    alignment_tokens: int                 # a hit is a multiple of so many tokens
    retention_interval: int               # tokens from one kept length to the next, 0 = none, ``DENSE`` = all lengths
    reachable_boundaries: Sequence[int]   # further lengths at which a request may resume [tokens]
    sliding_window: int                   # window of the group [tokens]
    use_eagle: bool                       # lookups drop a block

    def kept(self, need: int, shift: int) -> list[bool] | None:
        """Return which blocks are kept, None = all: ``need`` blocks before each kept length, shifted by ``shift``."""
        spaced = self.retention_interval != 0
        dense = self.retention_interval == DENSE
        per = (self.alignment_tokens if dense else self.retention_interval) // self.block_size
        if spaced and need >= per:
            return None
        blocks = range(self.start_block, self.end_block)
        kept = [spaced and i >= shift and (i - shift) % per >= per - need for i in blocks]
        for end in () if dense else self.reachable_boundaries:
            stop = end // self.alignment_tokens * self.alignment_tokens // self.block_size + shift
            for i in range(max(self.start_block, stop - need), min(self.end_block, stop)):
                kept[i - self.start_block] = True
        return kept


@rule("VL-PUB-MASK.ALL", Role.PLAN, groups("SingleTypeKVCacheManager.reachable_block_mask", spec="V-PUB-4"))
def keep_all(ask: PublicationMask) -> list[bool] | None:
    """Return None: full and chunked attention publish every block."""
    return None


@rule("VL-PUB-MASK.WINDOW", Role.PLAN, groups("SlidingWindowManager.reachable_block_mask", spec="V-PUB-4"))
def keep_window(ask: PublicationMask) -> list[bool] | None:
    """Return for each block True if a window group publishes it, None = all: the blocks that a window needs before each
    length at which a request may resume."""
    if ask.alignment_tokens % ask.block_size:
        return None
    need = window_blocks(ask.sliding_window, ask.block_size, ask.use_eagle)
    return ask.kept(need, shift=1 if ask.use_eagle else 0)


@rule("VL-PUB-MASK.STATE", Role.PLAN, groups("MambaManager.reachable_block_mask", spec="V-PUB-4"))
def keep_states(ask: PublicationMask) -> list[bool] | None:
    """Return for each block True if a group of states publishes it, None = all: those at lengths at which a request may
    resume, and at every interval."""
    return None if ask.retention_interval == DENSE else ask.kept(1, 0)


@rule("VL-PUB-PARTIAL-ROWS", Role.PLAN, groups("FullAttentionManager._cache_partial_tail_block", spec="V-PUB-5"))
def partial_rows(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Return the length [tokens] of the prompt's last part of a block that can be found."""
    return min((prompt if drop else prompt - 1) // unit, known) * unit


@rule("VL-PUB-PARTIAL-ROWS.END", Role.PLAN,
      groups("FullAttentionManager._cache_partial_tail_block", "0.31.0", spec="V-PUB-5"))
def partial_rows_end(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Return the length [tokens] of the prompt's last part of a block that can be found, which may be the whole
    prompt."""
    return prompt // unit * unit


@rule("VL-PUB-PARTIAL-ROWS.NONE", Role.PLAN,
      groups("FullAttentionManager.cache_blocks", "0.25.1", spec="V-PUB-5"), until="#46384")
def partial_rows_none(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Return the length [tokens] of the prompt's last part of a block that can be found: 0, no part can be."""
    return 0


class NewTokens(NamedTuple):
    """Tokens of an answer that arrived."""

    num_spec_tokens: int        # most drafted tokens
    placeholders_before: int    # places for tokens of later steps, before the tokens arrived
    placeholders_after: int     # the same after they arrived
    num_in_flight_tokens: int   # computed tokens in flight
    async_scheduling: bool      # steps overlap


@rule("VL-PUB-ANSWER", Role.PUBLISH, scheduler("update_from_output", spec="V-PUB-7"))
def publish_again(ask: NewTokens) -> int | None:
    """Return the last computed tokens that are left out when blocks of a running request are published, None = nothing
    is published. After drafts, or with steps in flight, they are published once the accepted tokens are known."""
    return ask.num_in_flight_tokens if ask.num_spec_tokens > 0 or ask.placeholders_before > 0 else None


@rule("VL-PUB-ANSWER.OVERLAP", Role.PUBLISH, scheduler("_update_request_with_output", "0.32.0", spec="V-PUB-7"))
def publish_overlapped(ask: NewTokens) -> int | None:
    """Return the last computed tokens that are left out, None = nothing is published. Blocks of an answer are published
    when tokens arrive only if steps overlap."""
    return ask.placeholders_after if ask.async_scheduling else None


@rule("VL-ALLOC-WATERMARK", Role.ADMIT, manager("allocate_slots watermark_blocks", spec="V-ALLOC-3"))
def reserve(share: float, blocks: int, new: bool, others: bool) -> int:
    """Return the blocks that stay free when a waiting request starts beside others."""
    return int(share * blocks) if new and others else 0
