"""Rules of the block tables: blocks that a request needs, no longer needs, and publishes."""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.vllm.rules.lookup import window_blocks
from cachesim.engines.vllm.rules.sources import COORDINATOR, GROUPS, INTERFACE, MANAGER, NOW, RUNNER, SCHEDULER, vllm

DENSE = -1                   # `None` of the real option: every block is kept


@rule("V-SIZE-10", Role.SETUP, vllm(INTERFACE, "max_admission_blocks_per_request", NOW))
def admission_cap(kind: str, size: int, in_flight: int, most: int, block: int) -> int:
    """Most blocks that a request of a window or chunk group ever holds, 0 = no limit."""
    if kind == "swa":
        return -(-min(size - 1 + in_flight, most) // block) + 1
    return -(-min(size + in_flight, most) // block) if kind == "chunked" else 0


@rule("V-FREE-1", Role.REMOVE, vllm(GROUPS, "get_num_skipped_tokens", NOW))
def skipped(kind: str, size: int, computed: int) -> int:
    """Tokens whose rows or states the next token does not read, after so many computed ones."""
    if kind == "swa":
        return max(0, computed - size + 1)
    if kind == "chunked":
        return computed // size * size
    return computed - 1 if kind == "mamba" else 0


@rule("V-FREE-2", Role.REMOVE, vllm(GROUPS, "RSWAManager.remove_skipped_blocks", NOW))
def reference_gap(prompt: int, computed: int, window: int, block: int) -> tuple[int, int]:
    """Reference window: the blocks between the prompt and the window are not needed. Returns the first, and the last
    plus 1."""
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


@rule("V-ALLOC-1", Role.NEED, vllm(GROUPS, "SingleTypeKVCacheManager.get_num_blocks_to_allocate", NOW))
def blocks_needed(ask: Need) -> int:
    """Free blocks that a request takes: for its new tokens, for found blocks without users, and for the copy of a
    block that a hit ends in."""
    required = -(-ask.tokens // ask.block)
    if ask.cap:
        required = min(required, ask.cap)
    if not ask.first:
        return max(required - ask.held, 0)
    return max(required - max(ask.skipped, ask.hit + ask.held), 0) + ask.idle + ask.partial


@rule("V-MAM-2", Role.NEED, vllm(GROUPS, "MambaManager.get_num_blocks_to_allocate", NOW))
def states_needed(ask: Need, scratch: int, begun: bool, checkpoint: bool) -> int:
    """Free blocks for states: one more, scratch blocks for drafts at the start, a copy after a partial hit, and one
    for a state inside the chunk."""
    new = -(-ask.tokens // ask.block) + scratch - ask.hit - ask.held
    if ask.partial:
        new = max(new, 0) + 1
    if new > 0:
        new = min(new, 1 + ask.partial + checkpoint + (0 if begun else scratch))
    return new + ask.idle


@rule("V-MAM-6", Role.CONSULT, vllm(GROUPS, "MambaManager cached_blocks_this_step", NOW))
def wait_for_state(kind: str, partial: bool, promised: bool) -> Decision:
    """A request whose state is computed in this very step waits for the next one. Returns whether it can start now.
    ``partial``: the found prefix ends inside the block; ``promised``: its first key is of this step, not any key."""
    return Decision(kind != "mamba" or not promised, {"promised": promised})


def checkpoint_at(tokens: int, unit: int, drop: bool, lookahead: int) -> int:
    """Return the last boundary of a prompt whose state can be found again."""
    end = tokens // unit * unit - unit if drop else (tokens - max(1, lookahead)) // unit * unit
    return max(end, 0)


@rule("V-MAM-8.POSITION", Role.PLAN, vllm(INTERFACE, "get_mamba_prefill_checkpoint_position", NOW))
def checkpoint(tokens: int, unit: int, align: int, drop: bool, lookahead: int) -> int:
    """Length below ``tokens`` whose state inside a chunk can be found: a multiple of the hit alignment."""
    return checkpoint_at(tokens, align, drop, lookahead)


@rule("V-MAM-8.RESERVE", Role.PLAN, vllm(GROUPS, "MambaManager._needs_internal_checkpoint", NOW))
def reserve_last(end: int, prefill_end: int, interval: int) -> bool:
    """Whether a chunk keeps a state inside: without retention only the chunk that ends the prompt."""
    return end >= prefill_end or interval != 0


@rule("V-WORK-3", Role.MEMORY, vllm(RUNNER, "MambaHybridModelState.add_request", NOW))
def start_column(computed: int, block: int, smallest: int) -> int:
    """Column of the state from which a request with so many computed tokens starts, in blocks of states."""
    return (computed - 1) // block


class Kept(NamedTuple):
    """A chunk that ends after ``tokens`` of a ``prompt`` exports the state after ``position`` tokens. ``own``: the
    prompt can resume there; ``masked_in``: the retention interval keeps it."""

    position: int
    tokens: int
    prompt: int
    own: int
    junction: int
    interval: int
    masked_in: bool


@rule("V-WORK-6", Role.CREATE, vllm("vllm/model_executor/layers/mamba/checkpoint.py",
                                   "compute_mamba_prefill_checkpoints", NOW))
def export_alone(reserved: bool) -> bool:
    """Whether the worker writes the state inside a chunk: wherever it can, although the scheduler may not have
    reserved a block (``reserved``)."""
    return True


@rule("V-MAM-8.KEEP", Role.PUBLISH, vllm(GROUPS, "MambaManager._cache_partial_tail_block", NOW))
def keep_inside(ask: Kept) -> bool:
    """Whether the state inside a chunk can be found: where the prompt or a sibling resumes, or by the interval."""
    return ask.position in (ask.own, ask.junction) or ask.masked_in


@rule("V-MAM-7", Role.PUBLISH, vllm(GROUPS, "MambaManager._cache_partial_tail_block", NOW))
def state_tail(tokens: int, prompt: int, unit: int, block: int, drop: bool, own: bool, lookahead: int,
               junction: bool) -> bool:
    """Whether the state at the end of a chunk can be found: where the prompt resumes, or at the junction."""
    return tokens == checkpoint_at(prompt, unit, drop, lookahead) or junction


@rule("V-MAM-7.AGAIN", Role.PUBLISH, vllm(GROUPS, "MambaManager._cache_partial_tail_block", NOW))
def keyed_once() -> bool:
    """Whether a state that has its key gets it again, so that siblings wait for the step: it does not."""
    return False


@rule("V-MAM-3", Role.PLAN, vllm(GROUPS, "MambaManager.allocate_new_blocks", NOW))
def left_behind(columns: int, inside: bool) -> int:
    """Scratch blocks before this column move to the end of the table."""
    return columns - inside


class Inside(NamedTuple):
    """A chunk of tokens start .. end - 1, whose state after ``position`` tokens should be kept. ``grid``: multiple
    of tokens after ``start`` at which the kernels can export a state, 0 = they cannot."""

    start: int
    end: int
    position: int
    unit: int
    block: int
    grid: int


@rule("V-MAM-8", Role.CREATE, vllm(INTERFACE, "is_mamba_prefill_checkpoint_valid", NOW))
def state_inside(ask: Inside) -> bool:
    """Whether the kernels can export the state inside this chunk."""
    return bool(ask.grid) and (
        ask.start % ask.unit == 0
        and -(-ask.end // ask.block) - 2 > (ask.start - 1) // ask.block
        and ask.start + ask.unit <= ask.position < ask.end
        and (ask.position - ask.start) % ask.grid == 0
    )


@rule("V-PUB-1", Role.PUBLISH, vllm(COORDINATOR, "get_num_cacheable_tokens", NOW))
def publishable(tokens: int, align: int, block: int, drop: bool, late: int) -> int:
    """Tokens whose blocks can be found from the moment they are scheduled. ``align``: multiple that a hit needs;
    ``late``: last tokens that a drafter of several modules evaluates again."""
    if drop and tokens // align:
        return min(max(0, tokens - late), max(0, tokens - late) // align * align + block)
    return tokens // align * align


@rule("V-PUB-1.ONE", Role.PUBLISH, vllm(COORDINATOR, "KVCacheCoordinator.get_num_cacheable_tokens", NOW))
def publishable_one(tokens: int, align: int, block: int, drop: bool, late: int) -> int:
    """A single group publishes every computed block."""
    return max(0, tokens - late)


@rule("V-PUB-3", Role.PLAN, vllm(COORDINATOR, "replay_boundaries", NOW))
def boundaries(prompt: int, step: int, drop: bool) -> list[int]:
    """Lengths at which an equal or longer prompt can resume: before its last token, with the drop a block earlier."""
    if not drop:
        return [prompt - 1]
    return sorted({max((end // step - 1) * step, 0) for end in (prompt - 1, prompt)})


@rule("V-PUB-3.JUNCTION", Role.PLAN, vllm(GROUPS, "SingleTypeKVCacheManager.cache_blocks", NOW))
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


@rule("V-PUB-4.ALL", Role.PLAN, vllm(GROUPS, "SingleTypeKVCacheManager.reachable_block_mask", NOW))
def keep_all(ask: Mask) -> list[bool] | None:
    """Full and chunked attention: every block. Returns None = all, else whether, for each block."""
    return None


@rule("V-PUB-4.WINDOW", Role.PLAN, vllm(GROUPS, "SlidingWindowManager.reachable_block_mask", NOW))
def keep_window(ask: Mask) -> list[bool] | None:
    """Windows: the blocks that a window needs before each length at which a request may resume."""
    if ask.align % ask.block:
        return None
    need, shift, kept = window_blocks(ask.window, ask.block, ask.drop), int(ask.drop), [False] * (ask.last - ask.first)
    segment = ask.align if ask.interval == DENSE else ask.interval
    if segment:
        per = segment // ask.block
        if need >= per:
            return None
        kept = [i >= shift and (i - shift) % per >= per - need for i in range(ask.first, ask.last)]
    for end in ask.ends if ask.interval != DENSE else ():
        stop = end // ask.align * ask.align // ask.block + shift
        for i in range(max(ask.first, stop - need), min(ask.last, stop)):
            kept[i - ask.first] = True
    return kept


@rule("V-PUB-4.STATE", Role.PLAN, vllm(GROUPS, "MambaManager.reachable_block_mask", NOW))
def keep_states(ask: Mask) -> list[bool] | None:
    """States: those at lengths at which a request may resume, and at every interval."""
    if ask.interval == DENSE:
        return None
    kept = [False] * (ask.last - ask.first)
    if ask.interval:
        per = ask.interval // ask.block
        if per <= 1:
            return None
        kept = [(i + 1) % per == 0 for i in range(ask.first, ask.last)]
    for end in ask.ends:
        i = end // ask.align * ask.align // ask.block - 1
        if ask.first <= i < ask.last:
            kept[i - ask.first] = True
    return kept


@rule("V-PUB-5", Role.PLAN, vllm(GROUPS, "FullAttentionManager._cache_partial_tail_block", NOW))
def partial_rows(prompt: int, unit: int, known: int, drop: bool) -> int:
    """Length of the prompt's last part of a block that can be found."""
    return min((prompt if drop else prompt - 1) // unit, known) * unit


class Delivered(NamedTuple):
    """Tokens of a request arrived. ``drafts``: most drafted tokens; ``before``, ``after``: places for tokens of later
    steps, before and after it; ``flying``: computed tokens in flight."""

    running: bool
    drafts: int
    before: int
    after: int
    computed: int
    flying: int
    overlap: bool


@rule("V-PUB-7", Role.PUBLISH, vllm(SCHEDULER, "update_from_output", NOW))
def publish_again(ask: Delivered) -> int | None:
    """After drafts, or with steps in flight, blocks are published once the accepted tokens are known. Returns the
    tokens whose blocks are published, None = none."""
    return ask.computed - ask.flying if ask.running and (ask.drafts > 0 or ask.before > 0) else None


@rule("V-ALLOC-3", Role.ADMIT, vllm(MANAGER, "allocate_slots watermark_blocks", NOW))
def reserve(share: float, blocks: int, new: bool, others: bool) -> int:
    """Blocks that stay free when a waiting request starts beside others."""
    return int(share * blocks) if new and others else 0
