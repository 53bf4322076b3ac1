"""Sentences of vLLM's decisions."""

from __future__ import annotations

from cachesim.engines.shared.sentences import Because, NoEffect, Say, Sentences


def _found(value: int | None, because: Because) -> str:
    lost = f"; one group alone has {because['junction']}" if because["junction"] else ""
    return f"{value or 0} of {because['n']} tokens found{lost}"


def _split(value: int, because: Because) -> str:
    inside = ", with a state inside" if because.get("inside") else ""
    return f"tokens {because['start']} to {because['end']} come next{inside}"


def _admit(value: bool, because: Because) -> str:
    if value:
        return f"{because['needed']} blocks are needed, {because['free']} are free"
    return f"the request waits: {because['needed']} blocks are needed, {because['free']} are free"


def _preempt(value: int, because: Because) -> str:
    return (f"{because['needed']} blocks are needed and {because['free']} are free:"
            f" request {value} of {because['running']} that run restarts later")


def _always(text: str) -> Say:
    return lambda value, because: text


PLAIN = {
    "V-SPEC-1": "slots for drafts, tokens that hashes cover, and the drop of a block are fixed at the start",
    "V-SIZE-2": "hits and publication work in a common multiple of the groups' blocks",
    "V-SIZE-1A": "a chunk of a prompt ends at a multiple of so many tokens",
    "V-SIZE-3": "a hash covers so many tokens", "V-SIZE-4": "whether a hit may end inside a block",
    "V-SIZE-8": "whether states are kept where chunks end",
    "V-SIZE-10": "a request never holds more blocks of this group",
    "V-HASH-1": "a unit is identified by its tokens and by those before it",
    "V-POOL-7": "an unused block joins the free list", "V-LOOK-2": "at least one token is evaluated",
    "V-FULL-1": "full attention has the prefix without a gap", "V-SWA-1": "the window has the blocks before a boundary",
    "V-CHK-1": "the chunk has its blocks", "V-MAM-1": "the last state that is found",
    "V-MAM-2": "free blocks that the state takes", "V-MAM-3": "scratch blocks before this column move to the end",
    "V-MAM-7": "whether the state at the end of this chunk is kept",
    "V-MAM-8": "whether a state inside this chunk is kept, and where", "V-ALLOC-1": "free blocks that the rows take",
    "V-ALLOC-3": "blocks that stay free", "V-FREE-1": "tokens that the next token does not read",
    "V-FREE-2": "blocks between the prompt and the window", "V-PUB-1": "tokens whose blocks can be found",
    "V-PUB-3": "lengths at which a request may resume", "V-PUB-4": "which complete blocks can be found",
    "V-PUB-5": "the last part of a block that can be found", "V-PUB-7": "blocks are published again after drafts",
    "V-SCHED-SELF": "whether the step goes on after a request preempted itself",
    "V-SCHED-SKIP": "whether others may start before the next request",
    "V-SCHED-CAP": "most tokens of a request in a step", "V-SCHED-PAD": "whether places for drafts are added",
    "V-SCHED-LOOK": "tokens that are left for the drafter", "V-SCHED-LAST": "whether the answer surely ends",
    "V-SCHED-RESET": "whether a reset restarts the running requests",
    "V-WORK-3": "column of the state from which a request starts",
    "V-WORK-6": "whether the worker writes the state inside this chunk",
}
"""Sentences of rules whose answers are not logged."""
SENTENCES = Sentences({
    **{family: _always(text) for family, text in PLAIN.items()},
    "V-LOOK-3": _found,
    "V-LOOK-4": _found,
    "V-SPLIT-1": _split,
    "V-MAM-6": lambda v, b: NoEffect("its state is there") if v else "its state is computed in this step: it waits",
    "V-POOL-5": lambda v, b: f"block {v}, the end of a prefix of {b['tokens']} tokens, is evicted",
    "V-SCHED-NEXT": lambda v, b: f"waiting request {v} of {b['waiting']}",
    "V-SCHED-ADMIT": _admit,
    "V-SCHED-PREEMPT": _preempt,
}, dict.fromkeys(("V-LOOK-3.REACH", "V-LOOK-3.REACH.PROMPT"), _always("how far the block that is dropped may reach")))
