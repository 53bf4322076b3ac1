"""What limits the tokens of a request in a step, as the scheduler decided it."""

from __future__ import annotations

from typing import Iterator, NamedTuple

from cachesim.engines.vllm.flags import Options
from cachesim.events.scheduling import LimitKind, StepLimit


class BlockRefusal(NamedTuple):
    """Blocks that a refused request needed: for its whole prompt (``whole``, 0 = not asked), for its next tokens
    (``needed``), those that stay free beside them (``watermark``), and those that were free. ``awaits``: request that
    computes the contents of a found block in this step, None = none."""

    whole: int
    needed: int
    watermark: int
    free: int
    awaits: int | None


class ChunkStages(NamedTuple):
    """Tokens of a request that a step could evaluate, after each limit in the order of the scheduler."""

    wanted: int             # all that the request has left
    cap: int                # most tokens of a request in a step, 0 = no limit
    token_budget: int       # tokens that the step has room for
    in_model_len: int       # after the length of the model
    cut_by_state: int       # tokens after the end where a state is kept, which are left for later
    cut_by_images: int      # tokens from an image on that cannot be encoded now
    scheduled: int          # after these two limits, and after tokens that are left for the drafter


def token_limit(options: Options) -> StepLimit:
    """Return the limit of a step without room for further tokens."""
    most = options.max_num_batched_tokens
    return StepLimit(LimitKind.TOKENS, option="max_num_batched_tokens", value=most, unit="tokens")


def request_limit(options: Options, running: tuple[int, ...]) -> StepLimit:
    """Return the limit of a step in which as many requests run as may."""
    most = options.max_num_seqs
    return StepLimit(LimitKind.REQUESTS, option="max_num_seqs", value=most, unit="requests", behind=running)


def order_limit(options: Options, first: int) -> StepLimit:
    """Return the limit of requests that come after one that waits."""
    return StepLimit(LimitKind.ORDER, option="scheduling_policy", value=options.scheduling_policy, behind=(first,))


def draft_limit(options: Options, token_budget: int) -> StepLimit:
    """Return the limit of a request that needs places for drafts, of which the step has too few."""
    most = options.num_speculative_tokens
    return StepLimit(LimitKind.DRAFTS, option="num_speculative_tokens", value=most, unit="tokens", needed=1 + most,
                     free=token_budget)


def block_limit(options: Options, refusal: BlockRefusal, holders: tuple[int, ...]) -> StepLimit:
    """Return the limit of a request that found too few free blocks. ``holders``: requests that hold blocks."""
    if refusal.awaits is not None:
        return StepLimit(LimitKind.STATE_IN_STEP, behind=(refusal.awaits,))
    kind = LimitKind.MEMORY
    option = "num_gpu_blocks"
    value: int | float | bool = options.num_gpu_blocks
    if max(refusal.whole, refusal.needed) <= refusal.free:
        kind = LimitKind.WATERMARK
        option = "watermark"
        value = options.watermark
    elif refusal.whole > refusal.needed:
        kind = LimitKind.WHOLE_PROMPT
        option = "scheduler_reserve_full_isl"
        value = options.scheduler_reserve_full_isl
    needed = max(refusal.whole, refusal.needed) + refusal.watermark
    return StepLimit(kind, option=option, value=value, unit="blocks", needed=needed, free=refusal.free, behind=holders)


def chunk_limits(options: Options, stages: ChunkStages, block_size: int, max_model_len: int) -> Iterator[StepLimit]:
    """Yield every limit that took tokens from a chunk. ``block_size``: tokens of a block of states."""
    allowed = min(stages.wanted, stages.cap or stages.wanted, stages.token_budget)
    if 0 < stages.cap <= stages.token_budget and stages.cap < stages.wanted:
        yield StepLimit(LimitKind.PROMPT, option="long_prefill_token_threshold", value=stages.cap, unit="tokens")
    elif allowed < stages.wanted:
        yield token_limit(options)
    if stages.in_model_len < allowed:
        yield StepLimit(LimitKind.LENGTH, option="max_model_len", value=max_model_len, unit="tokens")
    if stages.cut_by_state:
        yield StepLimit(LimitKind.STATE_END, option="mamba_cache_mode", value=options.mamba_cache_mode, unit="tokens",
                        needed=block_size)
    if stages.cut_by_images:
        most = max(options.max_num_batched_tokens, options.max_tokens_per_mm_item)
        yield StepLimit(LimitKind.IMAGE, option="max_tokens_per_mm_item", value=most, unit="tokens")
    if stages.scheduled < stages.in_model_len - stages.cut_by_state - stages.cut_by_images:
        yield StepLimit(LimitKind.LOOKAHEAD, option="num_speculative_tokens", value=options.num_speculative_tokens,
                        unit="tokens")
