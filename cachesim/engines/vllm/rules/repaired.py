"""Rules of the repaired rule set: what vLLM 0.33.0 could do instead, proposed by cachesim."""

from __future__ import annotations

from typing import Any, Callable, Sequence

from cachesim.engines.rule import Decision, Role, Source, about, rule
from cachesim.engines.vllm.rules.blocks import export_alone, reserve_last, wait_for_state
from cachesim.engines.vllm.rules.lookup import look_at_all
from cachesim.engines.vllm.rules.schedule import Split, split_states
from cachesim.engines.vllm.rules.sizes import chunk_block


def instead_of(released: Callable[..., Any]) -> Source:
    """Return the place of a released rule as the source of the rule that replaces it."""
    return about(released).source._replace(note="proposed by cachesim, not tried on a GPU")


@rule("V-LOOK-3.MOST.KNOWN", Role.PREFIX, instead_of(look_at_all))
def look_at_known(most: int, known: int) -> int:
    """Tokens that a group looks at: only those with hashes, so that a drafter that reads several tokens ahead does not
    end the process."""
    return min(most, known)


@rule("V-MAM-6.COPY", Role.CONSULT, instead_of(wait_for_state))
def wait_for_copy(kind: str, partial: bool, promised: bool) -> Decision:
    """A request waits for the next step if it needs a state, or a copy of a block, that this step computes. Returns
    whether it can start now."""
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


@rule("V-MAM-8.RESERVE.PROMPT", Role.PLAN, instead_of(reserve_last))
def reserve_in_prompt(end: int, prefill_end: int, interval: int) -> bool:
    """Whether a chunk keeps a state inside: like `V-MAM-8.RESERVE`, but not in a step with drafted tokens, whose
    hashes do not exist yet."""
    return end <= prefill_end and bool(reserve_last(end, prefill_end, interval))


@rule("V-WORK-6.RESERVED", Role.CREATE, instead_of(export_alone))
def export_reserved(reserved: bool) -> bool:
    """Whether the worker writes the state inside a chunk: only into a block that the scheduler reserved."""
    return reserved
