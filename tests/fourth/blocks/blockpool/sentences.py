"""Sentences of the block pool's decisions."""

from __future__ import annotations

from cachesim.engines.shared.sentences import Because, Sentences


def _find(value: int | None, because: Because) -> str:
    lost = f"; rows alone would have given {because['junction']}" if because["junction"] else ""
    return f"{value or 0} of {because['n']} tokens found{lost}"


def _split(value: int, because: Because) -> str:
    return f"tokens {because['start']} to {value} come next"


def _short(value: int, because: Because) -> str:
    return (f"{because['needed']} blocks are needed and {because['free']} are free:"
            f" request {value} of {because['running']} at work is put back")


def _retain(value: bool, because: Because) -> str:
    return f"the state after {because['start']} tokens " + ("can be found" if value else "is not kept")


SENTENCES = Sentences({
    "BP-HASH": lambda v, b: "",
    "BP-QUEUE": lambda v, b: f"the first of {b['waiting']} waiting requests",
    "BP-FIND": _find,
    "BP-GUARD": lambda v, b: "" if v else "its state is promised but not there: it waits a step",
    "BP-SPLIT": _split,
    "BP-SHORT": _short,
    "BP-EVICT": lambda v, b: f"block {v}, the end of a prefix of {b['end']} tokens, is used again",
    "BP-FREE": lambda v, b: "",
    "BP-PUBLISH": lambda v, b: f"{v} blocks can be found",
    "BP-RETAIN": _retain,
    "BP-RELEASE": lambda v, b: f"the state of block {b['column']} is released" if v else "",
})  # fmt: skip

