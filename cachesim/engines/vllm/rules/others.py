"""Rules of other rule sets than the newest release: proposed repairs, and rules that later releases replaced."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.rule_set import instead_of
from cachesim.engines.vllm.rules import blocks, lookup
from cachesim.engines.vllm.rules import sources as at
from cachesim.engines.vllm.rules.blocks import Need, states_needed, states_wanted
from cachesim.engines.vllm.rules.schedule import Speculation, Split, chunk_block, schedule, speculation, split_states

# Repairs, proposed by cachesim.


@rule("V-LOOK-3.MOST.KNOWN", Role.PREFIX, instead_of(lookup.look_at_all))
def look_at_known(most: int, known: int) -> int:
    """Tokens that a group looks at: only those with hashes, so that long drafts do not end the process."""
    return min(most, known)


@rule("V-MAM-6.COPY", Role.CONSULT, instead_of(blocks.wait_for_state))
def wait_for_copy(kind: str, partial: bool, promised: bool) -> Decision:
    """A request waits if it needs a state, or a copy of a block, that this step computes. Returns whether it starts."""
    return Decision(not promised if kind == "mamba" else not partial, {"promised": promised})


@rule("V-SIZE-1A.STATES", Role.SETUP, instead_of(chunk_block))
def chunk_block_of_states(blocks: Sequence[int], states: Sequence[int]) -> int:
    """Chunks end at multiples of the blocks of states, because a state belongs to the end of its block."""
    return max(states, default=min(blocks))


@rule("V-SPLIT-1.BLOCK", Role.PLAN, instead_of(split_states))
def split_in_block(ask: Split) -> Decision:
    """Like `V-SPLIT-1`, but a chunk that begins inside a block ends with it, even if a state is kept further on."""
    stop = (ask.start // ask.block + 1) * ask.block
    if ask.start % ask.block and ask.start < ask.prefill:
        ask = ask._replace(end=min(ask.end, stop), inside=False)
    found = split_states(ask)
    return Decision(found.value, found.because)


@rule("V-MAM-8.RESERVE.PROMPT", Role.PLAN, instead_of(blocks.reserve_last))
def reserve_in_prompt(end: int, prefill_end: int, interval: int) -> bool:
    """Like `V-MAM-8.RESERVE`, but not in a step with drafted tokens, whose hashes do not exist yet."""
    return end <= prefill_end and blocks.reserve_last(end, prefill_end, interval)


@rule("V-WORK-6.RESERVED", Role.CREATE, instead_of(blocks.export_alone))
def export_reserved(reserved: bool) -> bool:
    """Whether the worker writes the state inside a chunk: only into a block that the scheduler reserved."""
    return reserved


# Until 0.32.0.


@rule("V-SPEC-1.DROP", Role.SETUP, at.config("use_eagle_block_drop", "0.32.0"))
def speculation_drops(method: str, k: int, modules: bool, caching: bool, drop: bool) -> Speculation:
    """With a drafter of the EAGLE family the last block found is evaluated again; hashes cover no later token."""
    return speculation(method, k, modules, caching, drop=True)


@rule("V-PUB-3.JUNCTION.ONE", Role.PLAN, at.groups("SingleTypeKVCacheManager.cache_blocks", "0.32.0"))
def junction_only(junction: int, block: int, drop: bool) -> list[int]:
    """A sibling resumes at the junction, although a lookup with the drop needs the block before it."""
    return [junction]


@rule("V-PUB-7.OVERLAP", Role.PUBLISH, at.scheduler("_update_request_with_output", "0.32.0"))
def publish_overlapped(drafts: int, before: int, after: int, flying: int, overlap: bool) -> int | None:
    """Blocks of an answer are published when tokens arrive only if steps overlap. Returns like `V-PUB-7`."""
    return after if overlap else None


@rule("V-MAM-7.AGAIN.WAIT", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block", "0.32.0"))
def keyed_again() -> bool:
    """Whether a state that has its key gets it again: siblings that find it wait for the next step."""
    return True


@rule("V-SCHED-SELF.STOP", Role.PREEMPT, schedule._replace(commit="0.32.0"))
def stops(policy: str) -> bool:
    """Whether the step goes on after a request preempted itself: it does not."""
    return False


@rule("V-SCHED-SKIP.STOP", Role.ADMIT, schedule._replace(commit="0.32.0"))
def waits() -> bool:
    """Whether others may start if the next request has no tokens left for the drafter's sake: they may not."""
    return False


# Until 0.31.0.


@rule("V-LOOK-3.REACH.PROMPT", Role.PREFIX,
      at.coordinator("HybridKVCacheCoordinator.find_longest_cache_hit", "0.31.0"))
def reach_prompt(most: int, known: int) -> int:
    """The block behind a prefix that is dropped must end before the last token, too."""
    return most


@rule("V-PUB-5.END", Role.PLAN, at.groups("FullAttentionManager._cache_partial_tail_block", "0.31.0"))
def partial_rows_end(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Length of the prompt's last part of a block that can be found, which may be the whole prompt."""
    return prompt // unit * unit


@rule("V-MAM-8.POSITION.UNIT", Role.PLAN, at.interface("get_mamba_prefill_checkpoint_position", "0.31.0"))
def checkpoint_unit(tokens: int, unit: int, align: int, drop: bool, lookahead: int) -> int:
    """Length below ``tokens`` whose state inside a chunk can be found: a multiple of a hash, whatever hits need."""
    return last_boundary_whole(tokens - 1, unit, drop, lookahead)


@rule("V-MAM-8.END.WHOLE", Role.PLAN, at.scheduler("_mamba_block_aligned_split", "0.31.0"))
def last_boundary_whole(tokens: int, unit: int, drop: bool, lookahead: int) -> int:
    """Last multiple of ``unit`` in a prompt where its chunks stop: maybe the whole prompt, with the drop one less."""
    return max(tokens // unit * unit - (unit if drop else 0), 0)


@rule("V-MAM-8.KEEP.OWN", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block", "0.31.0"))
def keep_own(own: bool, junction: bool, ended: bool, interval: int, masked_in: bool) -> bool:
    """Whether the state inside a chunk can be found: with retention always, at the prompt's end, where one resumes."""
    return interval != 0 or ended or own or junction


@rule("V-MAM-7.END", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block", "0.31.0"))
def state_tail_end(tokens: int, end: int, own_end: int, unit: int, block: int, junction: bool) -> bool:
    """Whether the state inside a block at a chunk's end can be found: at the prompt's last hash, or at the junction."""
    return block != unit and tokens % block != 0 and (tokens == end or junction)


@rule("V-MAM-2.SCRATCH", Role.NEED, at.groups("MambaManager.get_num_blocks_to_allocate", "0.31.0"))
def states_needed_fresh(ask: Need, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Free blocks for states: like later releases, but with new scratch blocks beside a state inside the chunk."""
    return states_needed(ask, scratch, begun and not checkpoint, checkpoint)


@rule("V-MAM-3.STAY", Role.PLAN, at.groups("MambaManager.allocate_new_blocks", "0.31.0"))
def left_behind_alone(columns: int, inside: bool) -> int:
    """Scratch blocks before this column move to the end of the table, none beside a state inside the chunk."""
    return 0 if inside else columns


@rule("V-WORK-3.SMALLEST", Role.MEMORY, at.runner("MambaHybridModelState.add_request", "0.31.0"))
def start_column_smallest(computed: int, block: int, smallest: int) -> int:
    """Column of the state from which a request starts, in the smallest blocks, although the table has larger ones."""
    return (computed - 1) // smallest


# Until 0.30.0.


@rule("V-SCHED-CAP.ALWAYS", Role.PLAN, schedule._replace(commit="0.30.0"), until="#57951")
def prefill_cap_always(threshold: int, requests: int) -> int:
    """Most tokens of a request in a step, 0 = no limit: also for a request that is alone."""
    return threshold


@rule("V-MAM-8.RESERVE.ALL", Role.PLAN, at.groups("MambaManager._needs_internal_checkpoint", "0.30.0"))
def reserve_every(end: int, prefill_end: int, interval: int) -> bool:
    """Whether a chunk keeps a state inside: every chunk in which it is possible."""
    return True


@rule("V-MAM-8.KEEP.END", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block", "0.30.0"))
def keep_end(own: bool, junction: bool, ended: bool, interval: int, masked_in: bool) -> bool:
    """Whether the state inside a chunk can be found: with retention always, else at the end of the prompt and at the
    junction. A last chunk that ends before the prompt's last token loses it."""
    return interval != 0 or ended or junction


@rule("V-MAM-7.OWN", Role.PUBLISH, at.groups("MambaManager._cache_partial_tail_block", "0.30.0"))
def state_tail_own(tokens: int, end: int, own_end: int, unit: int, block: int, junction: bool) -> bool:
    """Like `V-MAM-7.END`; the last hash is one earlier only for the group of the drafter's layers."""
    return state_tail_end(tokens, own_end, own_end, unit, block, junction)


@rule("V-MAM-2.SET", Role.NEED, at.groups("MambaManager.get_num_blocks_to_allocate", "0.30.0"))
def states_needed_set(ask: Need, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Free blocks for states: like later releases, but not limited to the missing ones."""
    new = states_wanted(ask, scratch)
    if new > 0 and not (checkpoint and begun):
        new = 1 + ask.partial + checkpoint + (0 if begun else scratch)
    return new + ask.idle


# Before 0.26.0.


@rule("V-SPLIT-1.ALONE", Role.PLAN, at.scheduler("_mamba_block_aligned_split", "0.23.0"))
def split_alone(ask: Split) -> Decision:
    """Chunks end at blocks and at the last complete one, wherever prompts parted. Returns the tokens of the chunk."""
    start, end, block, last = ask.start, ask.end, ask.block, ask.last
    if start < ask.prefill:
        end = start + (end - start) // block * block if end < last else last if start < last else end
    return Decision(end - start, {"start": start, "end": end, "last": last})
