"""Rules of recurrent states: blocks for them, where chunks keep one, and which of them can be found."""

from __future__ import annotations

from typing import NamedTuple

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.rule_set import instead_of
from cachesim.engines.vllm.rules.blocks import BlockNeed
from cachesim.engines.vllm.rules.sources import groups, interface, kernels, runner, scheduler


@rule("VL-STATE-NEED", Role.NEED, groups("MambaManager.get_num_blocks_to_allocate", spec="V-MAM-2"))
def states_needed(ask: BlockNeed, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Return the free blocks that states need: one more, scratch blocks for drafts at the start, a copy after a partial
    hit, and one for a state inside the chunk."""
    num_new_blocks = min(states_wanted(ask, scratch), new_states(ask, scratch, begun, checkpoint))
    return num_new_blocks + ask.num_evictable_blocks


def states_wanted(ask: BlockNeed, scratch: int) -> int:
    """Return the blocks between those that a request has and those that its tokens need."""
    new = -(-ask.num_tokens // ask.block_size) + scratch - ask.num_new_computed_blocks - ask.num_req_blocks
    return max(new, 0) + 1 if ask.has_partial_hit else new


def new_states(ask: BlockNeed, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Return the most blocks that a step adds: for the running state, the copy of a partial hit, the state inside the
    chunk, and drafts."""
    blocks = 1
    if ask.has_partial_hit:
        blocks += 1
    if checkpoint:
        blocks += 1
    if not begun:
        blocks += scratch
    return blocks


@rule("VL-STATE-NEED.SCRATCH", Role.NEED, groups("MambaManager.get_num_blocks_to_allocate", "0.31.0", spec="V-MAM-2"),
      until="#59759")
def states_needed_fresh(ask: BlockNeed, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Return the free blocks that states need: like later releases, but with new scratch blocks beside a state inside
    the chunk."""
    return states_needed(ask, scratch, begun and not checkpoint, checkpoint)


@rule("VL-STATE-NEED.SET", Role.NEED, groups("MambaManager.get_num_blocks_to_allocate", "0.30.0", spec="V-MAM-2"))
def states_needed_set(ask: BlockNeed, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Return the free blocks that states need: like later releases, but not limited to the missing ones."""
    new = states_wanted(ask, scratch)
    if new > 0 and not (checkpoint and begun):
        new = new_states(ask, scratch, begun, checkpoint)
    return new + ask.num_evictable_blocks


@rule("VL-STATE-NEED.BEGUN", Role.MEMORY, groups("MambaManager.allocate_new_blocks"))
def begin_without_block() -> bool:
    """True if a request counts as one with scratch blocks after a step in which it needed no new block."""
    return True


@rule("VL-STATE-NEED.BEGUN.BLOCK", Role.MEMORY, groups("MambaManager.allocate_new_blocks", "0.27.1"))
def begin_with_block() -> bool:
    """True if a request counts as one with scratch blocks after a step in which it needed no new block: it does not."""
    return False


@rule("VL-STATE-WAIT", Role.CONSULT, groups("MambaManager cached_blocks_this_step", spec="V-MAM-6"))
def wait_for_state(kind: str, partial: bool, promised: bool) -> Decision:
    """True if a request can start now. A request whose state is computed in this very step waits for the next one.
    ``partial``: the found prefix ends inside the block; ``promised``: its first key is of this step, not any key."""
    return Decision(kind != "mamba" or not promised, {"promised": promised})


@rule("VL-STATE-WAIT.COPY", Role.CONSULT, instead_of(wait_for_state))
def wait_for_copy(kind: str, partial: bool, promised: bool) -> Decision:
    """True if a request can start now. It waits if it needs a state, or a copy of a block, that this step computes."""
    return Decision(not promised if kind == "mamba" else not partial, {"promised": promised})


@rule("VL-STATE-INSIDE.END", Role.PLAN, interface("get_mamba_prefill_checkpoint_position", spec="V-MAM-8"))
def last_boundary(tokens: int, unit: int, drop: bool, lookahead: int) -> int:
    """Return the last multiple of ``unit`` [tokens] at which a prompt resumes: before its last token, with the drop a
    unit earlier."""
    return max(tokens // unit * unit - unit if drop else (tokens - max(1, lookahead)) // unit * unit, 0)


@rule("VL-STATE-INSIDE.END.WHOLE", Role.PLAN, scheduler("_mamba_block_aligned_split", "0.31.0", spec="V-MAM-8"))
def last_boundary_whole(tokens: int, unit: int, drop: bool, lookahead: int) -> int:
    """Return the last multiple of ``unit`` [tokens] in a prompt where its chunks stop: it may be the whole prompt, with
    the drop one unit less."""
    return max(tokens // unit * unit - (unit if drop else 0), 0)


class StateBoundary(NamedTuple):
    """A chunk or a prompt that ends after ``num_tokens``."""

    num_tokens: int
    hash_block_size: int              # tokens of a hash
    cache_hit_alignment_tokens: int   # a hit is a multiple of so many tokens
    drop_eagle_block: bool            # lookups drop a block
    num_hash_lookahead_tokens: int    # tokens after a block that its hash covers


@rule("VL-STATE-INSIDE.POSITION", Role.PLAN, interface("get_mamba_prefill_checkpoint_position", spec="V-MAM-8"))
def checkpoint(ask: StateBoundary) -> int:
    """Return the length below ``tokens`` whose state inside a chunk can be found: a multiple of the hit alignment."""
    return last_boundary(
        ask.num_tokens, ask.cache_hit_alignment_tokens, ask.drop_eagle_block, ask.num_hash_lookahead_tokens)


@rule("VL-STATE-INSIDE.POSITION.UNIT", Role.PLAN,
      interface("get_mamba_prefill_checkpoint_position", "0.31.0", spec="V-MAM-8"))
def checkpoint_unit(ask: StateBoundary) -> int:
    """Return the length below ``tokens`` whose state inside a chunk can be found: a multiple of a hash, whatever hits
    need."""
    return last_boundary_whole(
        ask.num_tokens - 1, ask.hash_block_size, ask.drop_eagle_block, ask.num_hash_lookahead_tokens)


@rule("VL-STATE-INSIDE.RESERVE", Role.PLAN, groups("MambaManager._needs_internal_checkpoint", spec="V-MAM-8"))
def reserve_last(end: int, prefill_end: int, interval: int) -> bool:
    """True if a chunk keeps a state inside: without retention only the chunk that ends the prompt."""
    return end >= prefill_end or interval != 0


@rule("VL-STATE-INSIDE.RESERVE.PROMPT", Role.PLAN, instead_of(reserve_last))
def reserve_in_prompt(end: int, prefill_end: int, interval: int) -> bool:
    """True if a block is reserved for a state inside the chunk: like `VL-STATE-INSIDE.RESERVE`, but not in a step with
    drafted tokens, whose hashes do not exist yet."""
    return end <= prefill_end and reserve_last(end, prefill_end, interval)


@rule("VL-STATE-INSIDE.RESERVE.ALL", Role.PLAN,
      groups("MambaManager._needs_internal_checkpoint", "0.30.0", spec="V-MAM-8"), until="#59175")
def reserve_every(end: int, prefill_end: int, interval: int) -> bool:
    """True if a chunk keeps a state inside: every chunk in which it is possible."""
    return True


@rule("VL-WORK-START-COLUMN", Role.MEMORY, runner("MambaHybridModelState.add_request", spec="V-WORK-3"))
def start_column(computed: int, block: int, smallest: int) -> int:
    """Return the column of the state from which a request with ``computed`` tokens starts, in blocks of states."""
    return (computed - 1) // block


@rule("VL-WORK-START-COLUMN.SMALLEST", Role.MEMORY,
      runner("MambaHybridModelState.add_request", "0.31.0", spec="V-WORK-3"), until="#55601")
def start_column_smallest(computed: int, block: int, smallest: int) -> int:
    """Return the column of the state from which a request with ``computed`` tokens starts, in the smallest blocks,
    although the table has larger ones."""
    return (computed - 1) // smallest


@rule("VL-WORK-EXPORT", Role.CREATE, kernels("compute_mamba_prefill_checkpoints", spec="V-WORK-6"))
def export_alone(reserved: bool) -> bool:
    """True if the worker writes the state inside a chunk: wherever it can, with or without a reserved block."""
    return True


@rule("VL-WORK-EXPORT.RESERVED", Role.CREATE, instead_of(export_alone))
def export_reserved(reserved: bool) -> bool:
    """True if the worker writes the state inside a chunk: only into a block that the scheduler reserved."""
    return reserved


class StateInside(NamedTuple):
    """A state inside a chunk."""

    is_prompt_checkpoint: bool     # the prompt resumes there
    is_junction: bool              # a sibling resumes there
    ends_prompt: bool              # the chunk ends the prompt
    retention_interval: int        # tokens from one kept length to the next
    is_retained_checkpoint: bool   # the interval keeps it


@rule("VL-STATE-INSIDE.KEEP", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block", spec="V-MAM-8"))
def keep_inside(ask: StateInside) -> bool:
    """True if the state inside a chunk can be found: where the prompt or a sibling resumes, or by the interval."""
    return ask.is_prompt_checkpoint or ask.is_junction or ask.is_retained_checkpoint


@rule("VL-STATE-INSIDE.KEEP.OWN", Role.PUBLISH,
      groups("MambaManager._cache_partial_tail_block", "0.31.0", spec="V-MAM-8"))
def keep_own(ask: StateInside) -> bool:
    """True if the state inside a chunk can be found: with retention always, at the prompt's end, where one resumes."""
    return ask.retention_interval != 0 or ask.ends_prompt or ask.is_prompt_checkpoint or ask.is_junction


@rule("VL-STATE-INSIDE.KEEP.END", Role.PUBLISH,
      groups("MambaManager._cache_partial_tail_block", "0.30.0", spec="V-MAM-8"), until="#59146")
def keep_end(ask: StateInside) -> bool:
    """True if the state inside a chunk can be found: with retention always, else at the end of the prompt and at the
    junction. A last chunk that ends before the prompt's last token loses it."""
    return ask.retention_interval != 0 or ask.ends_prompt or ask.is_junction


@rule("VL-STATE-INSIDE.COUNT", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block"))
def counted_blocks(published: int, column: int) -> int:
    """Return the blocks of a request that count as published once a state inside a chunk has its key: its ``column``
    counts only if the hash of the whole block is known already."""
    return published


@rule("VL-STATE-INSIDE.COUNT.COLUMN", Role.PUBLISH, instead_of(counted_blocks))
def counted_with_column(published: int, column: int) -> int:
    """Return the blocks of a request that count as published once a state inside a chunk has its key: with its
    ``column``, which gets no key of the whole block when later tokens complete the hash."""
    return max(published, column + 1)


class StateTail(NamedTuple):
    """The state at the end of a chunk."""

    num_tokens: int                    # tokens after which it is the state
    latest_prompt_hash_boundary: int   # length at which the prompt resumes [tokens]
    own_hash_boundary: int             # where it would resume if only the drops of this group counted [tokens]
    hash_block_size: int               # tokens of a hash
    block_size: int                    # tokens of a block
    is_junction: bool                  # a sibling resumes there


@rule("VL-STATE-TAIL", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block", spec="V-MAM-7"))
def state_tail(ask: StateTail) -> bool:
    """True if the state at the end of a chunk can be found: where the prompt resumes, or at the junction."""
    return ask.num_tokens == ask.latest_prompt_hash_boundary or ask.is_junction


@rule("VL-STATE-TAIL.END", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block", "0.31.0", spec="V-MAM-7"))
def state_tail_end(ask: StateTail) -> bool:
    """True if the state inside a block at a chunk's end can be found: at the prompt's last hash, or at the junction."""
    if ask.block_size == ask.hash_block_size or ask.num_tokens % ask.block_size == 0:
        return False
    return ask.num_tokens == ask.latest_prompt_hash_boundary or ask.is_junction


@rule("VL-STATE-TAIL.OWN", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block", "0.30.0", spec="V-MAM-7"),
      until="#58368")
def state_tail_own(ask: StateTail) -> bool:
    """True under the conditions of `VL-STATE-TAIL.END`, but the last hash is one earlier only for the group of the
    drafter's layers."""
    return state_tail_end(ask._replace(latest_prompt_hash_boundary=ask.own_hash_boundary))


@rule("VL-STATE-TAIL.NONE", Role.PUBLISH, groups("MambaManager.cache_blocks", "0.25.1", spec="V-MAM-7"),
      until="#46384")
def state_tail_none(ask: StateTail) -> bool:
    """True if the state inside a block at a chunk's end can be found: it cannot."""
    return False


@rule("VL-STATE-TAIL.LENGTH", Role.PLAN, scheduler("_mamba_block_aligned_split tail_boundary", spec="V-MAM-7"))
def tail_length(end: int, whole: int) -> int:
    """Return the length [tokens] at which a prompt can resume inside a block: its last boundary of a hash (``whole``),
    or with the drop and with lookahead hashes the one before (``end``)."""
    return end


@rule("VL-STATE-TAIL.LENGTH.WHOLE", Role.PLAN,
      scheduler("_mamba_block_aligned_split tail_boundary", "0.29.0", spec="V-MAM-7"))
def tail_length_whole(end: int, whole: int) -> int:
    """Return the length [tokens] at which a prompt can resume inside a block: its last boundary of a hash, although a
    lookup with the drop does not find it."""
    return whole


@rule("VL-STATE-SETTLED", Role.REMOVE, groups("MambaManager.remove_skipped_blocks"))
def settled_states(settled: int, drafts: int) -> int:
    """Return the tokens behind which states may be freed: the settled ones."""
    return settled


@rule("VL-STATE-SETTLED.DRAFTS", Role.REMOVE, groups("MambaManager.remove_skipped_blocks", "0.25.1"),
      until="#47728")
def settled_without_drafts(settled: int, drafts: int) -> int:
    """Return the tokens behind which states may be freed: the computed ones without as many as a step may
    reject drafts."""
    return max(0, settled - drafts)


@rule("VL-STATE-RETIRE", Role.REMOVE, groups("MambaManager._remove_blocks_in_range"))
def retire_behind_gaps(is_gap: bool) -> bool:
    """True if a state further left is freed, too. ``is_gap``: this column holds none."""
    return True


@rule("VL-STATE-RETIRE.RUN", Role.REMOVE, groups("SingleTypeKVCacheManager._remove_blocks_in_range", "0.29.0"))
def retire_run(is_gap: bool) -> bool:
    """True if a state further left is freed, too: not behind a column without a state."""
    return not is_gap


@rule("VL-STATE-TAIL.AGAIN", Role.PUBLISH, groups("MambaManager._cache_partial_tail_block", spec="V-MAM-7"))
def keyed_once() -> bool:
    """True if a state that has its key gets it again, so that siblings wait for the step: it does not."""
    return False


@rule("VL-STATE-TAIL.AGAIN.WAIT", Role.PUBLISH,
      groups("MambaManager._cache_partial_tail_block", "0.32.0", spec="V-MAM-7"))
def keyed_again() -> bool:
    """True if a state that has its key gets it again: siblings that find it wait for the next step."""
    return True


@rule("VL-STATE-RELOCATE", Role.PLAN, groups("MambaManager.allocate_new_blocks", spec="V-MAM-3"))
def left_behind(columns: int, inside: bool) -> int:
    """Return the column before which scratch blocks move to the end of the table."""
    return columns - 1 if inside else columns


@rule("VL-STATE-RELOCATE.STAY", Role.PLAN, groups("MambaManager.allocate_new_blocks", "0.31.0", spec="V-MAM-3"),
      until="#59759")
def left_behind_alone(columns: int, inside: bool) -> int:
    """Return the column before which scratch blocks move to the end of the table, 0 beside a state inside the chunk."""
    return 0 if inside else columns


class StateExport(NamedTuple):
    """A state inside a chunk of tokens query_start .. query_end - 1."""

    query_start: int
    query_end: int
    checkpoint_position: int    # tokens after which it is the state
    hash_block_size: int        # tokens of a hash
    mamba_block_size: int       # tokens of a block of states
    checkpoint_alignment: int   # kernels export states at its multiples after ``query_start`` [tokens], 0 = never


@rule("VL-STATE-INSIDE", Role.CREATE, interface("is_mamba_prefill_checkpoint_valid", spec="V-MAM-8"))
def state_inside(ask: StateExport) -> bool:
    """True if the kernels can export the state after ``position`` tokens inside a chunk."""
    start = ask.query_start
    position = ask.checkpoint_position
    later = -(-ask.query_end // ask.mamba_block_size) - 2 > (start - 1) // ask.mamba_block_size
    fits = start % ask.hash_block_size == 0 and later and start + ask.hash_block_size <= position < ask.query_end
    return ask.checkpoint_alignment > 0 and fits and (position - start) % ask.checkpoint_alignment == 0
