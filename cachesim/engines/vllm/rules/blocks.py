"""Rules of the block pool, and of the block tables: blocks that a request needs, no longer needs, and publishes."""

from __future__ import annotations

from typing import Hashable, NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.block_pool import BACK, FRONT
from cachesim.engines.vllm.rules import sources as at
from cachesim.engines.vllm.rules.lookup import window_blocks

DENSE = -1                   # `None` of the real option: every block is kept


@rule("V-HASH-1", Role.MEMORY, at.utils("hash_block_tokens"))
def hash_unit(before: int, tokens: Sequence[int], lora: str, salt: str) -> Hashable:
    """A unit is identified by its tokens, those before it, the adapter, and in the first unit the salt. A token of an
    image stands for its identifier and a place in it; with lookahead hashes ``tokens`` include those that follow.
    Returns whatever is equal for equal units only."""
    return before, lora, salt if before < 0 else "", *tokens


@rule("V-POOL-5", Role.DROP, at.pool("get_new_blocks _maybe_evict_cached_block"))
def evict(block: int, tokens: int) -> Decision:
    """A block taken from the front of the free list loses its keys, of a prefix of ``tokens``. Returns its number."""
    return Decision(block, {"tokens": tokens})


@rule("V-POOL-7", Role.MEMORY, at.pool("free_blocks"))
def free_side(keyed: bool) -> str:
    """A block without users joins the free list at the back if it can be found, else at the front."""
    return BACK if keyed else FRONT


@rule("V-SIZE-10", Role.SETUP, at.interface("max_admission_blocks_per_request"))
def admission_cap(kind: str, size: int, in_flight: int, most: int, block: int) -> int:
    """Most blocks that a request of a window or chunk group ever holds, 0 = no limit."""
    if kind == "swa":
        return -(-min(size - 1 + in_flight, most) // block) + 1
    return -(-min(size + in_flight, most) // block) if kind == "chunked" else 0


@rule("V-FREE-1", Role.REMOVE, at.groups("get_num_skipped_tokens"))
def skipped(kind: str, size: int, computed: int) -> int:
    """Tokens whose rows or states the next token does not read, after so many computed ones."""
    if kind == "swa":
        return max(0, computed - size + 1)
    return computed // size * size if kind == "chunked" else computed - 1 if kind == "mamba" else 0


@rule("V-FREE-2", Role.REMOVE, at.groups("RSWAManager.remove_skipped_blocks"))
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


@rule("V-ALLOC-1", Role.NEED, at.groups("SingleTypeKVCacheManager.get_num_blocks_to_allocate"))
def blocks_needed(ask: Need) -> int:
    """Free blocks for new tokens, for found blocks without users, and for the copy of a block that a hit ends in."""
    required = -(-ask.tokens // ask.block)
    required = min(required, ask.cap or required)
    if not ask.first:
        return max(required - ask.held, 0)
    return max(required - max(ask.skipped, ask.hit + ask.held), 0) + ask.idle + ask.partial


@rule("V-MAM-2", Role.NEED, at.groups("MambaManager.get_num_blocks_to_allocate"))
def states_needed(ask: Need, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Free blocks for states: one more, scratch blocks for drafts at the start, a copy after a partial hit, and one
    for a state inside the chunk."""
    return min(states_wanted(ask, scratch), 1 + ask.partial + checkpoint + (0 if begun else scratch)) + ask.idle


def states_wanted(ask: Need, scratch: int) -> int:
    """Return the blocks between those that a request has and those that its tokens need."""
    new = -(-ask.tokens // ask.block) + scratch - ask.hit - ask.held
    return max(new, 0) + 1 if ask.partial else new


@rule("V-MAM-6", Role.CONSULT, at.groups("MambaManager cached_blocks_this_step"))
def wait_for_state(kind: str, partial: bool, promised: bool) -> Decision:
    """A request whose state is computed in this very step waits for the next one. Returns whether it can start now.
    ``partial``: the found prefix ends inside the block; ``promised``: its first key is of this step, not any key."""
    return Decision(kind != "mamba" or not promised, {"promised": promised})


@rule("V-MAM-8.END", Role.PLAN, at.interface("get_mamba_prefill_checkpoint_position"))
def last_boundary(tokens: int, unit: int, drop: bool, lookahead: int) -> int:
    """Last multiple of ``unit`` at which a prompt resumes: before its last token, with the drop a unit earlier."""
    return max(tokens // unit * unit - unit if drop else (tokens - max(1, lookahead)) // unit * unit, 0)


@rule("V-MAM-8.POSITION", Role.PLAN, at.interface("get_mamba_prefill_checkpoint_position"))
def checkpoint(tokens: int, unit: int, align: int, drop: bool, lookahead: int) -> int:
    """Length below ``tokens`` whose state inside a chunk can be found: a multiple of the hit alignment."""
    return last_boundary(tokens, align, drop, lookahead)


@rule("V-MAM-8.RESERVE", Role.PLAN, at.groups("MambaManager._needs_internal_checkpoint"))
def reserve_last(end: int, prefill_end: int, interval: int) -> bool:
    """Whether a chunk keeps a state inside: without retention only the chunk that ends the prompt."""
    return end >= prefill_end or interval != 0


@rule("V-WORK-3", Role.MEMORY, at.runner("MambaHybridModelState.add_request"))
def start_column(computed: int, block: int, smallest: int) -> int:
    """Column of the state from which a request with so many computed tokens starts, in blocks of states."""
    return (computed - 1) // block


@rule("V-WORK-6", Role.CREATE, at.kernels("compute_mamba_prefill_checkpoints"))
def export_alone(reserved: bool) -> bool:
    """Whether the worker writes the state inside a chunk: wherever it can, with or without a reserved block."""
    return True


@rule("V-MAM-8.KEEP", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block"))
def keep_inside(own: bool, junction: bool, ended: bool, interval: int, masked_in: bool) -> bool:
    """Whether the state inside a chunk can be found: where the prompt (``own``) or a sibling (``junction``) resumes, or
    by the interval (``masked_in``)."""
    return own or junction or masked_in


@rule("V-MAM-7", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block"))
def state_tail(tokens: int, end: int, own_end: int, unit: int, block: int, junction: bool) -> bool:
    """Whether the state at the end of a chunk can be found: at ``end``, where the prompt resumes, or at the junction.
    ``own_end``: where it would resume if only the drops of this group counted."""
    return tokens == end or junction


@rule("V-MAM-7.AGAIN", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block"))
def keyed_once() -> bool:
    """Whether a state that has its key gets it again, so that siblings wait for the step: it does not."""
    return False


@rule("V-MAM-3", Role.PLAN, at.groups("MambaManager.allocate_new_blocks"))
def left_behind(columns: int, inside: bool) -> int:
    """Scratch blocks before this column move to the end of the table."""
    return columns - inside


@rule("V-MAM-8", Role.CREATE, at.interface("is_mamba_prefill_checkpoint_valid"))
def state_inside(start: int, end: int, position: int, unit: int, block: int, grid: int) -> bool:
    """Whether the kernels can export the state after ``position`` tokens inside a chunk of tokens start .. end - 1.
    ``grid``: multiple of tokens after ``start`` at which they can, 0 = never."""
    fits = start % unit == 0 and -(-end // block) - 2 > (start - 1) // block and start + unit <= position < end
    return grid > 0 and fits and (position - start) % grid == 0


@rule("V-PUB-1", Role.PUBLISH, at.coordinator("get_num_cacheable_tokens"))
def publishable(tokens: int, align: int, block: int, drop: bool, late: int) -> int:
    """Tokens whose blocks can be found from the moment they are scheduled. ``align``: multiple that a hit needs;
    ``late``: last tokens that a drafter of several modules evaluates again."""
    if drop and tokens // align:
        return min(max(0, tokens - late), max(0, tokens - late) // align * align + block)
    return tokens // align * align


@rule("V-PUB-1.ONE", Role.PUBLISH, at.coordinator("KVCacheCoordinator.get_num_cacheable_tokens"))
def publishable_one(tokens: int, align: int, block: int, drop: bool, late: int) -> int:
    """A single group publishes every computed block."""
    return max(0, tokens - late)


@rule("V-PUB-3", Role.PLAN, at.coordinator("replay_boundaries"))
def boundaries(prompt: int, step: int, drop: bool) -> list[int]:
    """Lengths at which an equal or longer prompt can resume: before its last token, with the drop a block earlier."""
    return sorted({max((end // step - 1) * step, 0) for end in (prompt - 1, prompt)}) if drop else [prompt - 1]


@rule("V-PUB-3.JUNCTION", Role.PLAN, at.groups("SingleTypeKVCacheManager.cache_blocks"))
def junction_ends(junction: int, block: int, drop: bool) -> list[int]:
    """Lengths at which a sibling resumes: the junction, with the drop a block earlier too."""
    return [junction, junction - block] if drop else [junction]


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
        spaced, dense = self.interval != 0, self.interval == DENSE
        per = (self.align if dense else self.interval) // self.block
        if spaced and need >= per:
            return None
        kept = [spaced and i >= shift and (i - shift) % per >= per - need for i in range(self.first, self.last)]
        for end in () if dense else self.ends:
            stop = end // self.align * self.align // self.block + shift
            for i in range(max(self.first, stop - need), min(self.last, stop)):
                kept[i - self.first] = True
        return kept


@rule("V-PUB-4.ALL", Role.PLAN, at.groups("SingleTypeKVCacheManager.reachable_block_mask"))
def keep_all(ask: Mask) -> list[bool] | None:
    """Full and chunked attention: every block. Returns None = all, else whether, for each block."""
    return None


@rule("V-PUB-4.WINDOW", Role.PLAN, at.groups("SlidingWindowManager.reachable_block_mask"))
def keep_window(ask: Mask) -> list[bool] | None:
    """Windows: the blocks that a window needs before each length at which a request may resume."""
    return None if ask.align % ask.block else ask.kept(window_blocks(ask.window, ask.block, ask.drop), int(ask.drop))


@rule("V-PUB-4.STATE", Role.PLAN, at.groups("MambaManager.reachable_block_mask"))
def keep_states(ask: Mask) -> list[bool] | None:
    """States: those at lengths at which a request may resume, and at every interval."""
    return None if ask.interval == DENSE else ask.kept(1, 0)


@rule("V-PUB-5", Role.PLAN, at.groups("FullAttentionManager._cache_partial_tail_block"))
def partial_rows(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Length of the prompt's last part of a block that can be found."""
    return min((prompt if drop else prompt - 1) // unit, known) * unit


@rule("V-PUB-7", Role.PUBLISH, at.scheduler("update_from_output"))
def publish_again(drafts: int, before: int, after: int, flying: int, overlap: bool) -> int | None:
    """After drafts, or with steps in flight, blocks of a running request are published once the accepted tokens are
    known. Returns the last computed tokens that are left out, None = nothing is published. ``drafts``: most drafted
    tokens; ``before``, ``after``: places for tokens of later steps, before and after tokens arrived; ``flying``:
    computed tokens in flight."""
    return flying if drafts > 0 or before > 0 else None


@rule("V-ALLOC-3", Role.ADMIT, at.manager("allocate_slots watermark_blocks"))
def reserve(share: float, blocks: int, new: bool, others: bool) -> int:
    """Blocks that stay free when a waiting request starts beside others."""
    return int(share * blocks) if new and others else 0
