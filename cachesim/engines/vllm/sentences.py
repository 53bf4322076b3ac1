"""Sentences of vLLM's decisions. Rules that return plain values are not logged and have no sentence."""

from __future__ import annotations

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import Because, NoEffect, Sentences


def _found(value: int | None, because: Because) -> str:
    lost = f"; one group alone has {because['junction']}" if because["junction"] else ""
    return f"{value or 0} of {because['n']} tokens found{lost}"


def _padding(value: bool, b: Because) -> str:
    never = "; no step has more" if b["needed"] > b["most"] else ""
    return (f"the request waits: {b['n'] - 1} of {b['n']} tokens are there, the last one and "
            f"{counted(b['needed'] - 1, 'draft')} need {counted(b['needed'], 'token')} of a step, {b['free']} of "
            f"{b['most']} are left: {b['needed'] - b['free']} missing{never}")  # fmt: skip


SENTENCES = Sentences({
    "VL-LOOKUP-RECONCILE": _found, "VL-LOOKUP-ONE-GROUP": _found,
    "VL-SPLIT-CHUNK": lambda v, b: f"tokens {b['start']} to {b['end']} come next"
                                   + (", with a state inside" if b.get("inside") else ""),
    "VL-STATE-WAIT": lambda v, b: NoEffect("its state is there") if v
                     else "its state is computed in this step: it waits",
    "VL-POOL-EVICT": lambda v, b: f"block {v}, the end of a prefix of {b['tokens']} tokens, is evicted",
    "VL-SCHED-PAD": _padding,
    "VL-SCHED-NEXT": lambda v, b: f"waiting request {v} of {b['waiting']}",
    "VL-OFF-WAIT": lambda v, b: NoEffect("no chunk is in use") if v else "a chunk is being stored or loaded: it waits",
    "VL-OFF-LOAD": lambda v, b: f"{v} tokens behind {b['local']} are loaded from CPU memory" if v
                  else NoEffect(f"nothing behind {b['local']} tokens in CPU memory"),
    "VL-OFF-STORE": lambda v, b: f"{counted(v, 'chunk')} stored in CPU memory, {b['evicted']} evicted" if v
                   else f"CPU memory has no room for {counted(b['missing'], 'chunk')}",
    "VL-SCHED-ADMIT": lambda v, b: ("" if v else "the request waits: ")
                                  + f"{b['needed']} blocks are needed, {b['free']} are free",
    "VL-SCHED-LOOK": lambda v, b: f"the request waits: {b['computed']} of {counted(b['n'], 'token')} are there, "
                                  f"a chunk of {b['new']} leaves {b['remaining']}, the drafter reads "
                                  f"{b['lookahead']} ahead: {b['lookahead'] - b['remaining']} missing",
    "VL-SCHED-PREEMPT": lambda v, b: f"{b['needed']} blocks are needed and {b['free']} are free: request {v} of "
                                    f"{b['running']} that run restarts later",
})  # fmt: skip
