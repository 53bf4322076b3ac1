"""Sentences of vLLM's decisions. Rules that return plain values are not logged and have no sentence."""

from __future__ import annotations

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import Because, NoEffect, Sentences


def _found(value: int | None, because: Because) -> str:
    lost = f"; one group alone has {because['junction']}" if because["junction"] else ""
    return f"{value or 0} of {because['n']} tokens found{lost}"


def _split(value: int, because: Because) -> str:
    inside = ", with a state inside" if because.get("inside") else ""
    return f"tokens {because['start']} to {because['end']} come next{inside}"


def _admit(value: bool, because: Because) -> str:
    waits = "" if value else "the request waits: "
    return f"{waits}{because['needed']} blocks are needed, {because['free']} are free"


def _preempt(value: int, because: Because) -> str:
    return (f"{because['needed']} blocks are needed and {because['free']} are free:"
            f" request {value} of {because['running']} that run restarts later")


SENTENCES = Sentences({
    "V-LOOK-3": _found, "V-LOOK-4": _found,
    "V-SPLIT-1": _split,
    "V-MAM-6": lambda v, b: NoEffect("its state is there") if v else "its state is computed in this step: it waits",
    "V-POOL-5": lambda v, b: f"block {v}, the end of a prefix of {b['tokens']} tokens, is evicted",
    "V-SCHED-NEXT": lambda v, b: f"waiting request {v} of {b['waiting']}",
    "V-OFF-WAIT": lambda v, b: NoEffect("no chunk is in use") if v else "a chunk is being stored or loaded: it waits",
    "V-OFF-LOAD": lambda v, b: f"{v} tokens behind {b['local']} are loaded from CPU memory" if v
                  else NoEffect(f"nothing behind {b['local']} tokens in CPU memory"),
    "V-OFF-STORE": lambda v, b: f"{counted(v, 'chunk')} stored in CPU memory, {b['evicted']} evicted",
    "V-SCHED-ADMIT": _admit, "V-SCHED-PREEMPT": _preempt,
})  # fmt: skip
