"""Sentences that describe the decisions."""

from __future__ import annotations

from typing import Any

import cachesim.engines.sglang.profiles  # noqa: F401  (`described` reads the rules that it registers)
from cachesim.base.errors import counted
from cachesim.engines.sglang.rules.host import DELETE, DEMOTE, WRITE
from cachesim.engines.shared.sentences import Because, NoEffect, Sentences, described

LEAVES = {DELETE: "is deleted", DEMOTE: "is evicted to host memory", WRITE: "is copied to host memory first"}


def _hit(value: int, b: Because) -> str:
    more = f"; {b['full']} are in the tree" if b["full"] > b["hit"] else ""
    return f"{value} of {b['n']} tokens are reused{more}"


def _admit(value: int | None, b: Because) -> str:
    if value is None and "window" in b:
        return f"waits: it needs {counted(b['window'], 'window slot')}, {b['free']} are free or can be evicted"
    if value is None:
        return (f"waits: it needs {counted(b['needed'], 'slot')} for {counted(b['n'], 'token')} and an answer of "
                f"{b['answer']}, {b['free']} are free or can be evicted")
    return f"starts with {value} of {b['n']} tokens" if value else "waits for the next step"


def _inside(value: Any, b: Because) -> str:
    parts = " and ".join("window" if one == "S" else "state" for one in value)
    return f"node {b['node']}, which ends after {b['end']} tokens, loses its {parts}"


def _load(value: int | None, b: Because) -> str:
    if value is None and b["pinned"]:
        return "nothing is loaded from host memory: another load holds the copies"
    if value is None:
        return f"{counted(b['tokens'], 'token')} in host memory are too few to load"
    further = ("", " and a window or a state", " and a window and a state")[b["parts"]]
    return f"{counted(value, 'token')}{further} in host memory are due to be loaded"


SENTENCES = Sentences({
    **described("SG-"),
    "SG-MATCH-HIT": _hit,
    "SG-QUEUE-ORDER": lambda v, b: NoEffect("no new order") if v == sorted(v)
                      else f"sorts {b['waiting']} waiting requests",
    "SG-SCHED-ADMIT": _admit,
    "SG-EVICT-LEAF": lambda v, b: f"leaf {v}, {counted(b['tokens'], 'token')} up to {b['end']}, is evicted",
    "SG-EVICT-INSIDE": _inside,
    "SG-STATE-PATH": lambda v, b: f"the state after {b['end']} tokens is dropped: the path holds {b['held']}" if v
                     else NoEffect(f"the state after {b['end']} tokens stays"),
    "SG-HOST-BACK-UP": lambda v, b: f"the {b['end']} tokens up to node {b['node']} are due for a copy in host memory"
                       if v else NoEffect(f"node {b['node']} is not copied yet"),
    "SG-HOST-BACK-UP-PARTS": lambda v, b: f"state and windows up to node {b['node']} are copied to host memory" if v
                             else NoEffect(f"node {b['node']} is not copied yet"),
    "SG-HOST-DEMOTE": lambda v, b: f"leaf {b['node']}, {counted(b['tokens'], 'token')} up to {b['end']}, {LEAVES[v]}",
    "SG-HOST-EVICT": lambda v, b: f"node {v}, {counted(b['tokens'], 'token')} up to {b['end']}, leaves host memory",
    "SG-HOST-EVICT-INSIDE": lambda v, b: f"copies in host memory: {_inside(v, b)}",
    "SG-HOST-LOAD-BACK": _load,
    "SG-STATE-KEEP": lambda v, b: f"the state after {b['start']} tokens is kept" if v
                     else NoEffect(f"the tree has a state after {b['start']} tokens"),
    "SG-INSERT-PAGES": lambda v, b: f"{v} of {b['n']} tokens enter the tree",
    "SG-STATE-TRACK": lambda v, b: f"keeps the state after {v} tokens" if v else NoEffect("keeps no state here"),
    "SG-RETRACT-ORDER": lambda v, b: f"one of {b['running']} running requests is put back",
}, {
    "SG-SCHED-CHUNK.NEXT": lambda v, b: f"the last {counted(b['left'], 'token')} of its prompt wait: {b['total']} "
                           f"slots and {b['window']} window slots are free or can be evicted, and a page of these "
                           "stays free",
})  # fmt: skip
