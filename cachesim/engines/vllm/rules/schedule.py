"""Rules of the scheduler: sizes that are fixed when the server starts, then the order of a step."""

from __future__ import annotations

from math import gcd, lcm
from typing import NamedTuple, Sequence

from cachesim.engines.rule import Decision, Role, rule
from cachesim.engines.shared.rule_set import instead_of
from cachesim.engines.vllm.rules.sources import config, file, planning, scheduler, utils
from cachesim.engines.vllm.rules.start import ALIGN

EAGLE = ("eagle", "eagle3", "mtp")
FCFS, PRIORITY = "fcfs", "priority"
schedule = scheduler("schedule")


@rule("VL-SIZE-STATES-ALIGN", Role.SETUP, file("vllm/config/cache.py")("mamba_cache_mode", spec="V-SIZE-8"))
def states_at_ends(mode: str) -> bool | None:
    """True if states are kept where chunks end, which are chosen for it; None = the server does not start."""
    return True if mode == ALIGN else None


@rule("VL-SIZE-STATES-ALIGN.ALL", Role.SETUP,
      file("vllm/config/cache.py")("mamba_cache_mode", "0.31.0", spec="V-SIZE-8"), until="#58997")
def states_at_blocks(mode: str) -> bool:
    """True if states are kept where chunks end; in the mode `all` a kernel keeps one at the end of every block."""
    return mode == ALIGN


class Drafter(NamedTuple):
    """A drafter."""

    method: str                            # "" = none
    num_speculative_tokens: int            # most drafted tokens
    use_multi_module_mtp: bool             # each draft token has a module
    enable_prefix_caching: bool
    disable_lookahead_block_hashes: bool   # hashes cover no later token: as given, or because a connector is used
    disable_eagle_block_drop: bool = False   # the last block found is used although the drafter's rows may be wrong


class Speculation(NamedTuple):
    """Drafts: slots behind a chunk, prompt tokens that the drafter reads ahead, tokens after a block that its hash
    covers, and whether the last block found is not used."""

    num_lookahead_tokens: int
    num_prefill_lookahead: int
    num_hash_lookahead_tokens: int
    use_eagle_block_drop: bool


@rule("VL-SPEC-LOOKAHEAD", Role.SETUP, config("num_lookahead_tokens num_hash_lookahead_tokens", spec="V-SPEC-1"))
def speculation(ask: Drafter) -> Speculation:
    """Return the speculation of a drafter. Drafters of the EAGLE family keep rows of their own, which depend on the
    next token: hashes cover it, or the last block found is evaluated again, unless the option forbids both."""
    if ask.method not in EAGLE:
        return Speculation(ask.num_speculative_tokens if ask.method == "draft_model" else 0, 0, 0, False)
    ahead = ask.num_speculative_tokens if ask.use_multi_module_mtp else 1
    hashed = ahead
    if not ask.enable_prefix_caching or ask.disable_lookahead_block_hashes or ask.disable_eagle_block_drop:
        hashed = 0
    return Speculation(ask.num_speculative_tokens, ahead, hashed, not (hashed or ask.disable_eagle_block_drop))


@rule("VL-SPEC-LOOKAHEAD.DROP", Role.SETUP, config("use_eagle_block_drop", "0.32.0", spec="V-SPEC-1"))
def speculation_drops(ask: Drafter) -> Speculation:
    """Return the speculation of a drafter: with the EAGLE family the last block found is evaluated again, and hashes
    cover no later token."""
    return speculation(ask._replace(disable_lookahead_block_hashes=True))


@rule("VL-SPEC-GROUP", Role.SETUP, planning("get_global_kv_cache_groups"))
def knows_drafter_group(method: str) -> bool:
    """True if the group with the layers of a drafter of the EAGLE family is known, so that no other group evaluates its
    last block again."""
    return True


@rule("VL-SPEC-GROUP.MTP", Role.SETUP, utils("_uses_trailing_mtp_layers", "0.32.0"))
def knows_mtp_group(method: str) -> bool:
    """True if the group with the layers of a drafter is known: that of the model's own drafter (MTP). Beside another
    drafter all groups evaluate their last block again."""
    return method == "mtp"


@rule("VL-SPEC-GROUP.NONE", Role.SETUP, utils("_annotate_eagle_groups", "0.30.0"), until="#55390")
def knows_no_group(method: str) -> bool:
    """True if the group with the layers of a drafter is known: that of DeepSeek V4 alone, which is not asked here.
    Beside any drafter all groups evaluate their last block again, also those of states, which have none to spare."""
    return False


@rule("VL-SIZE-SCHEDULER-BLOCK", Role.SETUP, utils("resolve_kv_cache_block_sizes", spec="V-SIZE-2"))
def scheduler_block(blocks: Sequence[int]) -> int:
    """Return the block [tokens] in which hits and publication work: a common multiple of the groups' blocks."""
    return lcm(*blocks)


@rule("VL-SIZE-CHUNK-BLOCK", Role.SETUP, file("vllm/v1/engine/core.py")("_initialize_kv_caches", spec="V-SIZE-1A"))
def chunk_block(blocks: Sequence[int], states: Sequence[int]) -> int:
    """Return the block [tokens] at whose multiples chunks end: the smallest one, although a group of states may have
    larger ones."""
    return min(blocks)


@rule("VL-SIZE-CHUNK-BLOCK.STATES", Role.SETUP, instead_of(chunk_block))
def chunk_block_of_states(blocks: Sequence[int], states: Sequence[int]) -> int:
    """Return the block [tokens] at whose multiples chunks end: that of states, because a state belongs to the end of
    its block."""
    return max(states, default=min(blocks))


@rule("VL-SIZE-HASH-UNIT", Role.SETUP, utils("resolve_kv_cache_block_sizes", spec="V-SIZE-3"))
def hash_block_size(blocks: Sequence[int], asked: int, active: bool) -> int:
    """Return the tokens of a hash: as asked, else the common divisor of the groups' blocks. ``active``: True if groups
    with blocks of different sizes are looked up."""
    if not active or len(blocks) == 1:
        return lcm(*blocks)
    return asked or gcd(*blocks)


@rule("VL-SIZE-PARTIAL-HITS", Role.SETUP, utils("partial_hash_hits_enabled", spec="V-SIZE-4"))
def partial_hits(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """True if a hit may end inside a block: if states have blocks of several hashes, and windows do not."""
    larger = any(block > unit or (parallel and block == unit) for block in states)
    return larger and all(block == unit for block in windows)


@rule("VL-SIZE-PARTIAL-HITS.ALONE", Role.SETUP, utils("HybridKVCacheCoordinator", "0.28.0", spec="V-SIZE-4"))
def partial_hits_alone(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """True if a hit may end inside a block: under the conditions of `VL-SIZE-PARTIAL-HITS`, but not on several
    devices."""
    return not parallel and partial_hits(states, windows, unit, parallel)


@rule("VL-SIZE-PARTIAL-HITS.ANY", Role.SETUP, utils("HybridKVCacheCoordinator", "0.27.1", spec="V-SIZE-4"))
def partial_hits_any(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """True if a hit may end inside a block: if states have blocks of several hashes, whatever windows have, and not on
    several devices."""
    return partial_hits_alone(states, (), unit, parallel)


@rule("VL-SIZE-PARTIAL-HITS.NONE", Role.SETUP, utils("HybridKVCacheCoordinator", "0.25.1", spec="V-SIZE-4"),
      until="#46384")
def partial_hits_none(states: Sequence[int], windows: Sequence[int], unit: int, parallel: bool) -> bool:
    """True if a hit may end inside a block: no hit does."""
    return False


@rule("VL-SIZE-HASH-STATES", Role.SETUP, utils("resolve_kv_cache_block_sizes", spec="V-SIZE-3"))
def hash_beside_states(states: Sequence[int], smallest: int) -> bool:
    """True if hashes may be finer than the common multiple of the groups' blocks, beside blocks of ``states`` [tokens].
    ``smallest``: smallest block of the groups."""
    return True


@rule("VL-SIZE-HASH-STATES.SMALLEST", Role.SETUP, utils("resolve_kv_cache_block_sizes", "0.27.1", spec="V-SIZE-3"))
def hash_beside_smallest(states: Sequence[int], smallest: int) -> bool:
    """True if hashes may be finer than the common multiple of the groups' blocks: only if the blocks of states are the
    smallest ones."""
    return all(block == smallest for block in states)


@rule("VL-SCHED-CAP", Role.PLAN, schedule)
def prefill_cap(threshold: int, requests: int) -> int:
    """Return the most tokens of a request in a step, 0 = no limit: limited only beside other requests."""
    return threshold if requests > 1 else 0


@rule("VL-SCHED-CAP.ALWAYS", Role.PLAN, scheduler("schedule", "0.30.0"), until="#57951")
def prefill_cap_always(threshold: int, requests: int) -> int:
    """Return the most tokens of a request in a step, 0 = no limit: also limited for a request that is alone."""
    return threshold


class WaitingQueue(NamedTuple):
    """Waiting requests."""

    order: Sequence[tuple[int, int]]   # priority and number of each
    holds_blocks: Sequence[bool]       # True for each that holds blocks
    is_skipped: Sequence[bool]         # True for each that an earlier step passed over

    def pick(self, policy: str, first: Sequence[bool]) -> Decision:
        """Return the place of the most urgent request, or of the one that has waited longest. Those in ``first`` come
        before the others."""
        places = [at for at, is_first in enumerate(first) if is_first] or range(len(self.order))
        at = min(places, key=lambda at: self.order[at]) if policy == PRIORITY else places[0]
        return Decision(at, {"waiting": len(self.order)})


@rule("VL-SCHED-NEXT", Role.ADMIT, schedule)
def next_waiting(policy: str, queue: WaitingQueue) -> Decision:
    """Return the place of the next waiting request: the one that has waited longest, or the most urgent one; those that
    hold blocks go first."""
    return queue.pick(policy, queue.holds_blocks)


@rule("VL-SCHED-NEXT.SKIPPED", Role.ADMIT, scheduler("_select_waiting_queue_for_scheduling", "0.30.0"), until="#58947")
def next_skipped(policy: str, queue: WaitingQueue) -> Decision:
    """Return the place of the next waiting request: the most urgent one, or the one that has waited longest; then those
    that an earlier step passed over go first."""
    return queue.pick(policy, () if policy == PRIORITY else queue.is_skipped)


@rule("VL-SCHED-SELF", Role.PREEMPT, schedule)
def goes_on(policy: str) -> bool:
    """True if the step goes on with the next running request after one preempted itself."""
    return policy == PRIORITY


@rule("VL-SCHED-SELF.STOP", Role.PREEMPT, scheduler("schedule", "0.32.0"))
def stops(policy: str) -> bool:
    """True if the step goes on after a request preempted itself: it does not."""
    return False


@rule("VL-SCHED-SKIP", Role.ADMIT, schedule)
def passes_over() -> bool:
    """True if others may start if the next request has no tokens left for the drafter's sake."""
    return True


@rule("VL-SCHED-SKIP.STOP", Role.ADMIT, scheduler("schedule", "0.32.0"))
def waits() -> bool:
    """True if others may start if the next request has no tokens left for the drafter's sake: they may not."""
    return False


@rule("VL-SCHED-PREEMPT", Role.PREEMPT, scheduler("schedule _preempt_request"))
def preempt(policy: str, running: Sequence[tuple[int, int]], needed: int, free: int) -> Decision:
    """Return the place of the running request that restarts later because blocks are missing: the last one, or the
    least urgent one. ``running``: priority and number of each."""
    at = max(range(len(running)), key=lambda i: running[i]) if policy == PRIORITY else len(running) - 1
    return Decision(at, {"running": len(running), "needed": needed, "free": free})


@rule("VL-SCHED-ADMIT", Role.CONSULT, scheduler("schedule allocate_slots"))
def admit(whole: int, needed: int, watermark: int, free: int) -> Decision:
    """True if a waiting request starts: the pool has the blocks that it needs now, and those of its whole prompt if
    these are reserved (``whole``, 0 = not)."""
    ok = max(whole, needed) + watermark <= free
    return Decision(ok, {"needed": max(whole, needed) + watermark, "free": free})


class DraftPadding(NamedTuple):
    """A waiting request."""

    num_new_tokens: int             # tokens to evaluate
    num_spec_tokens: int            # most drafted tokens
    prefill_scheduled: bool         # the step has a chunk of a prompt
    num_computed_tokens: int        # its tokens that are cached or evaluated
    has_running_reqs: bool          # the step has a request that ran before
    fits_model_len: bool            # the drafts fit
    max_num_scheduled_tokens: int   # most tokens of a step


@rule("VL-SCHED-PAD", Role.DRAFT, schedule)
def pad_drafts(ask: DraftPadding) -> bool:
    """True if a request with one token left gets places for drafts, so that all requests of the step have as many."""
    if ask.num_spec_tokens == 0 or ask.num_new_tokens != 1 or ask.prefill_scheduled:
        return False
    return (ask.has_running_reqs or ask.num_computed_tokens > 0) and ask.fits_model_len


@rule("VL-SCHED-PAD.BESIDE", Role.DRAFT, scheduler("schedule", "0.29.0"), until="#55126")
def pad_drafts_beside(ask: DraftPadding) -> bool:
    """True if a request with one token left gets places for drafts: like `VL-SCHED-PAD`, but only in a step with a
    request that ran before."""
    return ask.has_running_reqs and pad_drafts(ask)


@rule("VL-SCHED-PAD.ALWAYS", Role.DRAFT, scheduler("schedule", "0.28.0"), until="#53962")
def pad_any(ask: DraftPadding) -> bool:
    """True if a request with one token left gets places for drafts: like `VL-SCHED-PAD.BESIDE`, also if they exceed the
    length of the model."""
    return pad_drafts_beside(ask._replace(fits_model_len=True))


@rule("VL-SCHED-PAD.NEVER", Role.DRAFT, scheduler("schedule", "0.24.0"), until="#45237")
def pad_never(ask: DraftPadding) -> bool:
    """True if a request with one token left gets places for drafts: no request does."""
    return False


@rule("VL-SCHED-PAD.FITS", Role.DRAFT, instead_of(pad_drafts))
def pad_fitting_drafts(ask: DraftPadding) -> bool:
    """True under the conditions of `VL-SCHED-PAD`, if a step has room for the drafts: without it the request waits for
    ever."""
    return pad_drafts(ask) and ask.num_spec_tokens < ask.max_num_scheduled_tokens


@rule("VL-SCHED-PREEMPT.CURSOR", Role.PREEMPT, scheduler("schedule req_index"))
def step_back(is_scheduled: bool) -> bool:
    """True if the step goes back one place after it preempted a request before the current one. ``is_scheduled``: the
    step had tokens of that request."""
    return True


@rule("VL-SCHED-PREEMPT.CURSOR.SCHEDULED", Role.PREEMPT, scheduler("schedule req_index", "0.27.1"), until="#49206")
def step_back_if_scheduled(is_scheduled: bool) -> bool:
    """True if the step goes back one place after it preempted a request before the current one: only if it had tokens
    of that request. Otherwise the step leaves out the next running request."""
    return is_scheduled


class OutputInFlight(NamedTuple):
    """Results in flight of a request that is preempted."""

    num_in_flight_tokens: int        # computed tokens whose step is not processed
    num_output_placeholders: int     # places for their results
    num_discarded_outputs: int       # results that are dropped, of an earlier reset
    is_reset: bool                   # a reset of the prefix cache preempts the request


class StaleOutput(NamedTuple):
    """What a preemption leaves of the results in flight."""

    num_stale_output_tokens: int     # computed tokens whose results do not change the counters of the request
    num_output_placeholders: int     # places for results that stay
    num_discarded_outputs: int       # results that are dropped, one after the other


@rule("VL-SCHED-STALE", Role.PREEMPT, scheduler("_preempt_request num_stale_output_tokens"))
def stale_by_tokens(ask: OutputInFlight) -> StaleOutput:
    """Return what a preemption leaves of the results in flight: those of all tokens in flight are stale, and the
    request has no places for them."""
    return StaleOutput(ask.num_in_flight_tokens, 0, 0)


@rule("VL-SCHED-STALE.PLACES", Role.PREEMPT, scheduler("reset_prefix_cache async_tokens_to_discard", "0.26.0"),
      until="#48245")
def stale_by_places(ask: OutputInFlight) -> StaleOutput:
    """Return what a preemption leaves of the results in flight: the request keeps its places and may restart before the
    results arrive. After a reset it drops as many results as it had places, although a result with drafts has
    several."""
    if not ask.is_reset:
        return StaleOutput(0, ask.num_output_placeholders, ask.num_discarded_outputs)
    return StaleOutput(0, 0, ask.num_output_placeholders)


@rule("VL-SCHED-STALE.DRAFTS", Role.DRAFT, scheduler("update_from_output async_tokens_to_discard", "0.26.0"))
def keep_discarded_drafts() -> bool:
    """True if the rejected drafts of a dropped result are taken back: they are not."""
    return False


@rule("VL-SCHED-STALE.DRAFTS.BACK", Role.DRAFT, scheduler("update_from_output", "0.24.0"), until="#46066")
def take_back_discarded_drafts() -> bool:
    """True if the rejected drafts of a dropped result are taken back, although the request has restarted."""
    return True


@rule("VL-SCHED-IMAGE.ORDER", Role.PLAN, schedule)
def cut_images_last() -> bool:
    """True if a chunk first ends where a state is kept, and then before an image that the encoder cannot take."""
    return True


@rule("VL-SCHED-IMAGE.ORDER.FIRST", Role.PLAN, scheduler("schedule", "0.27.1"))
def cut_images_first() -> bool:
    """True if a chunk first ends where a state is kept, and then before an image that the encoder cannot take: it is
    the other way round, so that images are encoded whose tokens the step does not evaluate."""
    return False


@rule("VL-SCHED-IMAGE", Role.PLAN, scheduler("_try_schedule_encoder_inputs"))
def before_image(start: int, new: int, image: int, ahead: int) -> int:
    """Return the tokens of the next chunk, before an image that the encoder cannot take in this step. Without its
    output, none of the tokens after it can be evaluated, even if its own rows are cached. ``ahead``: tokens that the
    drafter reads ahead."""
    return min(new, image - start) if start < image else 0


@rule("VL-SCHED-IMAGE.AHEAD", Role.PLAN, scheduler("_try_schedule_encoder_inputs", "0.32.0"))
def before_image_ahead(start: int, new: int, image: int, ahead: int) -> int:
    """Return the tokens of the next chunk, before an image that the encoder cannot take in this step. The chunk ends so
    early that the drafter does not read the image either."""
    return max(0, image - start - ahead)


@rule("VL-SCHED-IMAGE.KEEP", Role.DROP, scheduler("_free_encoder_inputs"))
def keep_image(ahead: int) -> int:
    """Return the computed tokens after an image with which a request stops using its output."""
    return 0


@rule("VL-SCHED-IMAGE.KEEP.AHEAD", Role.DROP, scheduler("_free_encoder_inputs", "0.32.0"))
def keep_image_ahead(ahead: int) -> int:
    """Return the computed tokens after an image with which a request stops using its output: as many as the drafter
    reads ahead."""
    return ahead


@rule("VL-SCHED-IMAGE.REPEATED", Role.DROP,
      file("vllm/v1/core/encoder_cache_manager.py")("EncoderCacheManager.free_encoder_input"))
def hold_repeated() -> bool:
    """True if a request uses the output of an image that it has twice until the last one is computed."""
    return True


@rule("VL-SCHED-IMAGE.REPEATED.FIRST", Role.DROP,
      file("vllm/v1/core/encoder_cache_manager.py")("EncoderCacheManager.free_encoder_input", "0.28.0"),
      until="#54284")
def give_up_repeated() -> bool:
    """True if a request uses the output of an image that it has twice until the last one is computed: it gives it up
    with the first one."""
    return False


@rule("VL-SCHED-LOOK", Role.PLAN, scheduler("_reserve_prefill_lookahead"))
def leave_lookahead(left: int, new: int, lookahead: int) -> int:
    """Return the tokens of the next chunk. It leaves as many tokens for the last chunk as the drafter reads ahead."""
    return max(new - (lookahead - left), 0) if 0 < left < lookahead else new


@rule("VL-SCHED-LOOK.SOME", Role.PLAN, instead_of(leave_lookahead))
def leave_lookahead_if_possible(left: int, new: int, lookahead: int) -> int:
    """Return the tokens of the next chunk: like `VL-SCHED-LOOK`, but a chunk that would be empty keeps its tokens, so
    that the request goes on."""
    return max(new - (lookahead - left), 0) or new if 0 < left < lookahead else new


class PaddedRequest(NamedTuple):
    """A waiting request with places for drafts."""

    num_new_tokens: int           # its last token and the drafts
    num_computed_tokens: int      # tokens before them
    token_budget: int             # tokens that the step has room for
    max_model_len: int            # most tokens of a request


@rule("VL-SCHED-PAD.ROOM", Role.DRAFT, schedule)
def padded_fits(ask: PaddedRequest) -> bool:
    """True if a request with places for drafts starts now: the step has room for them. Otherwise no further request
    starts."""
    return ask.num_new_tokens <= ask.token_budget


@rule("VL-SCHED-PAD.ROOM.LENGTH", Role.DRAFT, scheduler("schedule", "0.28.0"), until="#53962")
def padded_fits_length(ask: PaddedRequest) -> bool:
    """True if a request with places for drafts starts now: the step has room for them, and so has the length of the
    model. A request one token before the end of that length never starts."""
    fits = ask.num_computed_tokens + ask.num_new_tokens <= ask.max_model_len
    return fits and padded_fits(ask)


@rule("VL-SCHED-PAD.CLIP", Role.DRAFT, schedule)
def unpad_clipped() -> bool:
    """True if a chunk that would end among the places for drafts, where a state is kept, loses them all."""
    return True


@rule("VL-SCHED-PAD.CLIP.KEEP", Role.DRAFT, scheduler("schedule", "0.28.0"))
def keep_clipped() -> bool:
    """True if a chunk that would end among the places for drafts, where a state is kept, loses them all: it keeps its
    drafts, and has fewer rows than they need."""
    return False


class ChunkSplit(NamedTuple):
    """Tokens that a step could evaluate of a request with states."""

    start: int                             # first token to evaluate
    end: int                               # last token to evaluate plus 1
    prefill_end: int                       # length up to which tokens belong to a start or restart
    num_prompt_tokens: int
    block_size: int                        # smallest block of the groups [tokens]
    max_prefill_tokens: int                # most tokens of a request in a step
    last_cache_position: int               # last boundary of a block at which the request can resume [tokens]
    tail_boundary: int                     # last boundary of a hash at which its prompt can resume [tokens], 0 = none
    use_internal_checkpoint: bool          # a state inside the chunk can be kept
    junction: int                          # length at which prompts parted [tokens]
    mamba_shared_prefix_checkpoint: bool   # chunks end at the junction itself, not at a block before it
    is_running: bool = False               # the request has a chunk in an earlier step


@rule("VL-SPLIT-CHUNK", Role.PLAN, scheduler("_mamba_block_aligned_split", spec="V-SPLIT-1"))
def split_states(ask: ChunkSplit) -> Decision:
    """Return the tokens of a chunk. It ends where a state should be kept: at a block, the last boundary, or the
    junction."""
    start = ask.start
    end = ask.end
    block = ask.block_size
    junction = ask.junction
    if start >= ask.prefill_end:
        return Decision(end - start, {"start": start, "end": end})
    if end < ask.prefill_end and (end // block * block > start or block <= ask.max_prefill_tokens):
        end = end // block * block
    if not (ask.mamba_shared_prefix_checkpoint and junction <= ask.num_prompt_tokens):
        junction = start + (junction - start) // block * block
    last = 0 if ask.use_internal_checkpoint else ask.last_cache_position
    stops = [junction] if start < ask.junction < end else []
    if not ask.use_internal_checkpoint:
        next_block_boundary = -(-start // block) * block
        tail = ask.tail_boundary if last < ask.tail_boundary < ask.num_prompt_tokens else 0
        stops += [next_block_boundary, last, tail]
    stop = min((one for one in stops if start < one < end), default=end)
    return Decision(max(stop - start, 0), {"start": start, "end": stop, "last": last, "junction": ask.junction,
                                           "inside": ask.use_internal_checkpoint})  # fmt: skip


@rule("VL-SPLIT-CHUNK.BLOCK", Role.PLAN, instead_of(split_states))
def split_in_block(ask: ChunkSplit) -> Decision:
    """Return the tokens of a chunk: like `VL-SPLIT-CHUNK`, but a chunk that begins inside a block ends with it, even if
    a state is kept later."""
    stop = (ask.start // ask.block_size + 1) * ask.block_size
    if ask.start % ask.block_size and ask.start < ask.prefill_end:
        ask = ask._replace(end=min(ask.end, stop), use_internal_checkpoint=False)
    found = split_states(ask)
    return Decision(found.value, found.because)


@rule("VL-SPLIT-CHUNK.ALONE", Role.PLAN, scheduler("_mamba_block_aligned_split", "0.23.0", spec="V-SPLIT-1"))
def split_alone(ask: ChunkSplit) -> Decision:
    """Return the tokens of a chunk. It ends at a block and at the last complete one, wherever prompts parted."""
    start = ask.start
    end = ask.end
    block = ask.block_size
    last = ask.last_cache_position
    if start < ask.prefill_end:
        end = start + (end - start) // block * block if end < last else last if start < last else end
    return Decision(end - start, {"start": start, "end": end, "last": last})


@rule("VL-SPLIT-CHUNK.LAST", Role.PLAN, scheduler("_mamba_block_aligned_split", "0.26.0", spec="V-SPLIT-1"),
      until="#51113")
def split_before_last(ask: ChunkSplit) -> Decision:
    """Return the tokens of a chunk. It ends at a block if it ends before the last complete one, at that one, or at the
    block before the junction. A chunk from there on may end anywhere."""
    start = ask.start
    end = ask.end
    block = ask.block_size
    last = ask.last_cache_position
    if start >= ask.prefill_end:
        return Decision(end - start, {"start": start, "end": end})
    if end < last:
        end = end // block * block
    stops = [last]
    next_block_boundary = -(-start // block) * block
    if next_block_boundary <= last:
        stops.append(next_block_boundary)
    if last < ask.tail_boundary < ask.num_prompt_tokens:
        stops.append(ask.tail_boundary)
    if start < ask.junction < end:
        stops.append(start + (ask.junction - start) // block * block)
    stop = min((one for one in stops if start < one < end), default=end)
    return Decision(max(stop - start, 0), {"start": start, "end": stop, "last": last, "junction": ask.junction})


@rule("VL-SPLIT-CHUNK.FIRST", Role.PLAN, scheduler("_mamba_block_aligned_split", "0.25.1", spec="V-SPLIT-1"),
      until="#46384")
def split_first(ask: ChunkSplit) -> Decision:
    """Return the tokens of a chunk: like `VL-SPLIT-CHUNK.ALONE`, but the first chunk of a request ends at the last
    block that another prompt shares."""
    found = split_alone(ask)
    shared = ask.junction - ask.start
    tokens = found.value
    if not ask.is_running and ask.block_size <= shared < tokens:
        tokens = shared // ask.block_size * ask.block_size
    return Decision(tokens, {**found.because, "end": ask.start + tokens, "junction": ask.junction})


@rule("VL-SPLIT-TAIL", Role.PLAN, scheduler("__init__ mamba_partial_cache_hit"))
def stop_for_partial_hits(has_partial_hits: bool, is_finer: bool) -> bool:
    """True if a chunk ends at the last boundary of a hash in a prompt: if a hit may end inside a block. ``is_finer``: a
    hash has fewer tokens than the common multiple of the groups' blocks."""
    return has_partial_hits


@rule("VL-SPLIT-TAIL.FINER", Role.PLAN, scheduler("__init__ mamba_partial_cache_hit", "0.27.1"))
def stop_for_finer_hashes(has_partial_hits: bool, is_finer: bool) -> bool:
    """True if a chunk ends at the last boundary of a hash in a prompt: if hashes are finer than the common multiple of
    the groups' blocks, also where no hit can end there."""
    return is_finer


@rule("VL-SCHED-STOP", Role.END, scheduler("_update_request_with_output"))
def uncount_extra(extra: int) -> int:
    """Return the computed tokens that an ended request gives up: the ``extra`` ones behind the end of its answer."""
    return extra


@rule("VL-SCHED-STOP.COUNTED", Role.END, scheduler("_update_request_with_output", "0.32.0"))
def count_extra(extra: int) -> int:
    """Return the computed tokens that an ended request gives up: 0, those behind the end of its answer still count."""
    return 0


@rule("VL-SCHED-LAST", Role.END, schedule)
def surely_ends(placeholders: int, computed: int, most: int) -> bool:
    """True if the tokens in flight end the answer, so that no further step is needed."""
    return placeholders > 0 and computed + 2 - placeholders >= most


@rule("VL-SCHED-RESET", Role.DROP, scheduler("reset_prefix_cache"))
def reset_preempts(running: bool) -> bool:
    """True if a reset of the prefix cache preempts the running requests first."""
    return running
