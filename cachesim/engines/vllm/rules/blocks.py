"""Rules of the block pool, and of the block tables: blocks that a request needs, no longer needs, and publishes."""

from __future__ import annotations

from typing import Hashable, NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.vllm.core.block_pool import BACK, FRONT
from cachesim.engines.vllm.rules.lookup import window_blocks
from cachesim.engines.vllm.rules.sources import coordinator, groups, interface, manager, pool, scheduler, utils

DENSE = -1                   # `None` of the real option: every block is kept


@rule("V-HASH-1", Role.MEMORY, utils("hash_block_tokens"))
def hash_unit(before: int, tokens: Sequence[int], lora: str, salt: str) -> Hashable:
    """A unit is identified by its tokens, those before it, the adapter, and in the first unit the salt. A token of an
    image stands for its identifier and a place in it; with lookahead hashes ``tokens`` include those that follow.
    Returns whatever is equal for equal units only."""
    return before, lora, salt if before < 0 else "", *tokens


@rule("V-POOL-5", Role.DROP, pool("get_new_blocks _maybe_evict_cached_block"))
def evict(block: int, tokens: int) -> Decision:
    """A block taken from the front of the free list loses its keys, of a prefix of ``tokens``. Returns its number."""
    return Decision(block, {"tokens": tokens})


@rule("V-POOL-7", Role.MEMORY, pool("free_blocks"))
def free_side(keyed: bool) -> str:
    """A block without users joins the free list at the back if it can be found, else at the front."""
    return BACK if keyed else FRONT


class Admission(NamedTuple):
    """A group of a kind with a window or chunk of ``size`` tokens, and blocks of ``block`` tokens. ``in_flight``: most
    tokens of the steps in flight; ``most``: most tokens of a request."""

    kind: str
    size: int
    in_flight: int
    most: int
    block: int


@rule("V-SIZE-10", Role.SETUP, interface("max_admission_blocks_per_request"))
def admission_cap(ask: Admission) -> int:
    """Most blocks that a request of a window or chunk group ever holds, 0 = no limit."""
    if ask.kind == "swa":
        return -(-min(ask.size - 1 + ask.in_flight, ask.most) // ask.block) + 1
    return -(-min(ask.size + ask.in_flight, ask.most) // ask.block) if ask.kind == "chunked" else 0


@rule("V-FREE-1", Role.REMOVE, groups("get_num_skipped_tokens"))
def skipped(kind: str, size: int, computed: int) -> int:
    """Tokens whose rows or states the next token does not read, after so many computed ones."""
    if kind == "swa":
        return max(0, computed - size + 1)
    return computed // size * size if kind == "chunked" else computed - 1 if kind == "mamba" else 0


@rule("V-FREE-2", Role.REMOVE, groups("RSWAManager.remove_skipped_blocks"))
def reference_gap(prompt: int, computed: int, window: int, block: int) -> tuple[int, int]:
    """Reference window: first block between the prompt and the window, none of which is needed, and the last plus 1."""
    return -(-prompt // block), max(prompt, computed - window) // block


class Need(NamedTuple):
    """A request holds ``held`` blocks of a group, ``hit`` more were found, of which ``idle`` have no user; it needs
    storage for ``tokens``. ``first``: it holds none yet; ``skipped``: blocks that it does not need."""

    tokens: int
    block: int
    held: int
    hit: int
    idle: int
    skipped: int
    first: bool
    partial: bool
    cap: int


@rule("V-ALLOC-1", Role.NEED, groups("SingleTypeKVCacheManager.get_num_blocks_to_allocate"))
def blocks_needed(ask: Need) -> int:
    """Free blocks for new tokens, for found blocks without users, and for the copy of a block that a hit ends in."""
    required = -(-ask.tokens // ask.block)
    required = min(required, ask.cap or required)
    if not ask.first:
        return max(required - ask.held, 0)
    return max(required - max(ask.skipped, ask.hit + ask.held), 0) + ask.idle + ask.partial


class Publishable(NamedTuple):
    """``tokens`` of a request are scheduled, in blocks of ``block`` tokens. ``align``: multiple that a hit needs;
    ``drop``: lookups drop a block; ``late``: last tokens that a drafter of several modules evaluates again."""

    tokens: int
    align: int
    block: int
    drop: bool
    late: int


@rule("V-PUB-1", Role.PUBLISH, coordinator("get_num_cacheable_tokens"))
def publishable(ask: Publishable) -> int:
    """Tokens whose blocks can be found from the moment they are scheduled."""
    final = max(0, ask.tokens - ask.late)
    if ask.drop and ask.tokens // ask.align:
        return min(final, final // ask.align * ask.align + ask.block)
    return ask.tokens // ask.align * ask.align


@rule("V-PUB-1.ONE", Role.PUBLISH, coordinator("KVCacheCoordinator.get_num_cacheable_tokens"))
def publishable_one(ask: Publishable) -> int:
    """A single group publishes every computed block."""
    return max(0, ask.tokens - ask.late)


@rule("V-PUB-3", Role.PLAN, coordinator("replay_boundaries"))
def boundaries(prompt: int, step: int, drop: bool) -> list[int]:
    """Lengths at which an equal or longer prompt can resume: before its last token, with the drop a block earlier."""
    return sorted({max((end // step - 1) * step, 0) for end in (prompt - 1, prompt)}) if drop else [prompt - 1]


@rule("V-PUB-3.JUNCTION", Role.PLAN, groups("SingleTypeKVCacheManager.cache_blocks"))
def junction_ends(junction: int, block: int, drop: bool) -> list[int]:
    """Lengths at which a sibling resumes: the junction, with the drop a block earlier too."""
    return [junction, junction - block] if drop else [junction]


@rule("V-PUB-3.JUNCTION.ONE", Role.PLAN, groups("SingleTypeKVCacheManager.cache_blocks", "0.32.0"))
def junction_only(junction: int, block: int, drop: bool) -> list[int]:
    """A sibling resumes at the junction, although a lookup with the drop needs the block before it."""
    return [junction]


class Mask(NamedTuple):
    """Blocks first .. last - 1 of a prompt are complete. ``ends``: lengths at which a request may resume;
    ``interval``: tokens from one kept length to the next, 0 = only these, ``DENSE`` = all."""

    first: int
    last: int
    block: int
    align: int
    interval: int
    ends: Sequence[int]
    window: int
    drop: bool

    def kept(self, need: int, shift: int) -> list[bool] | None:
        """Return which blocks are kept, None = all: ``need`` blocks before each kept length, shifted by ``shift``."""
        spaced = self.interval != 0
        dense = self.interval == DENSE
        per = (self.align if dense else self.interval) // self.block
        if spaced and need >= per:
            return None
        kept = [spaced and i >= shift and (i - shift) % per >= per - need for i in range(self.first, self.last)]
        for end in () if dense else self.ends:
            stop = end // self.align * self.align // self.block + shift
            for i in range(max(self.first, stop - need), min(self.last, stop)):
                kept[i - self.first] = True
        return kept


@rule("V-PUB-4.ALL", Role.PLAN, groups("SingleTypeKVCacheManager.reachable_block_mask"))
def keep_all(ask: Mask) -> list[bool] | None:
    """Full and chunked attention: every block. Returns None = all, else whether, for each block."""
    return None


@rule("V-PUB-4.WINDOW", Role.PLAN, groups("SlidingWindowManager.reachable_block_mask"))
def keep_window(ask: Mask) -> list[bool] | None:
    """Windows: the blocks that a window needs before each length at which a request may resume."""
    return None if ask.align % ask.block else ask.kept(window_blocks(ask.window, ask.block, ask.drop), int(ask.drop))


@rule("V-PUB-4.STATE", Role.PLAN, groups("MambaManager.reachable_block_mask"))
def keep_states(ask: Mask) -> list[bool] | None:
    """States: those at lengths at which a request may resume, and at every interval."""
    return None if ask.interval == DENSE else ask.kept(1, 0)


@rule("V-PUB-5", Role.PLAN, groups("FullAttentionManager._cache_partial_tail_block"))
def partial_rows(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Length of the prompt's last part of a block that can be found."""
    return min((prompt if drop else prompt - 1) // unit, known) * unit


@rule("V-PUB-5.END", Role.PLAN, groups("FullAttentionManager._cache_partial_tail_block", "0.31.0"))
def partial_rows_end(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Length of the prompt's last part of a block that can be found, which may be the whole prompt."""
    return prompt // unit * unit


class NewTokens(NamedTuple):
    """Tokens of an answer arrived. ``drafts``: most drafted tokens; ``before``, ``after``: places for tokens of later
    steps, before and after they arrived; ``in_flight``: computed tokens in flight; ``overlap``: steps overlap."""

    drafts: int
    before: int
    after: int
    in_flight: int
    overlap: bool


@rule("V-PUB-7", Role.PUBLISH, scheduler("update_from_output"))
def publish_again(ask: NewTokens) -> int | None:
    """After drafts, or with steps in flight, blocks of a running request are published once the accepted tokens are
    known. Returns the last computed tokens that are left out, None = nothing is published."""
    return ask.in_flight if ask.drafts > 0 or ask.before > 0 else None


@rule("V-PUB-7.OVERLAP", Role.PUBLISH, scheduler("_update_request_with_output", "0.32.0"))
def publish_overlapped(ask: NewTokens) -> int | None:
    """Blocks of an answer are published when tokens arrive only if steps overlap. Returns like `V-PUB-7`."""
    return ask.after if ask.overlap else None


@rule("V-ALLOC-3", Role.ADMIT, manager("allocate_slots watermark_blocks"))
def reserve(share: float, blocks: int, new: bool, others: bool) -> int:
    """Blocks that stay free when a waiting request starts beside others."""
    return int(share * blocks) if new and others else 0
