"""Sentences for the decisions of mlx-lm's cache classes. Most are Dull, because the rules are called for every
token."""

from __future__ import annotations

from typing import Any

from cachesim.base.errors import counted
from cachesim.engines.shared.sentences import Because, NoEffect, Say


def _trimmable(value: bool, because: Because) -> str:
    held, size = because["held"], because["max_size"]
    if value:
        return NoEffect(f"RotatingKVCache is trimmable: {held} of {size}")
    return f"RotatingKVCache is not trimmable: {held} tokens >= max_size {size}"


def _trim(value: Any, because: Because) -> str:
    text = f"RotatingKVCache trimmed by {counted(value.n, 'token')} of {because['n']}"
    return text + (": offset moves, the buffer stays" if value.keep is None else f": the buffer keeps {value.keep}")


def _merged(value: Any, because: Because) -> str:
    last = "all of its entries" if value.last is None else f"its last {value.last} entries"
    return NoEffect(f"RotatingKVCache joins a batch with {last} in {value.width} columns")


def _start(value: int, because: Because) -> str:
    padding = f"left padding {because['left_padding']}"
    if value < 0:
        return f"row extracted from column {value} on ({padding}): most of the ring is lost"
    return NoEffect(f"row extracted from column {value} on ({padding})")


def _front(value: Any, because: Because) -> str:
    if value is None:
        return NoEffect(f"ChunkedKVCache keeps all {because['valid']} tokens")
    return f"ChunkedKVCache trims its front: columns {value.start}..{value.stop - 1} stay"


def _extended(value: Any, because: Because) -> str:
    rows = because["rows_a"] + because["rows_b"]
    return NoEffect(f"recurrent states of {counted(rows, 'row')} joined" if value is not None else "no states to join")


FAMILIES: dict[str, Say] = {
    "ML-RING-TRIMMABLE": _trimmable,
    "ML-RING-TRIM": _trim,
    "ML-RING-MERGE": _merged,
    "ML-RING-EXTRACT-START": _start,
    "ML-RING-EXTRACT-OFFSET": lambda v, b: NoEffect(f"offset of the extracted row = {v}"),
    "ML-RING-EXTRACT-EMPTY": lambda v, b: NoEffect(
        "row extracted from the batch's buffer" if v else "no buffer: the extracted row is a new ring"),
    "ML-RING-MASK": lambda v, b: NoEffect(f"mask made from write position {v}"),
    "ML-CHUNK-TRIM-FRONT": _front,
    "ML-ARRAYS-TRIM": lambda v, b: NoEffect(f"recurrent states are {'' if v else 'not '}trimmable"),
    "ML-ARRAYS-ADVANCE": lambda v, b: (
        NoEffect("padding and lengths advance") if v else "padding and lengths stay as before the step"),
    "ML-ARRAYS-ROW": lambda v, b: f"row {b['index']} of a state with {counted(b['rows'], 'row')} is read: row {v}",
    "ML-ARRAYS-KEEP": lambda v, b: NoEffect(
        "kept inputs are a view of the whole step" if v else "kept inputs are a copy"),
    "ML-KV-MASK": lambda v, b: NoEffect(
        f"{counted(b['new'], 'query', 'queries')}: tokens before the window are " + ("masked" if v else "read")),
    "ML-KV-MERGE": lambda v, b: NoEffect("all caches join the batch") if v else "a cache without a buffer cannot join",
    "ML-RING-EXTRACT-END": lambda v, b: NoEffect(f"row extracted up to column {v}"),
    "ML-KV-EXTEND": lambda v, b: NoEffect(f"an empty side joins the batch as {counted(v[0], 'row')} of {v[1]}"),
    "ML-STATE-SAVE": lambda v, b: NoEffect("`state` is read"),
    "ML-STATE-RESTORE": lambda v, b: NoEffect("`state` is set"),
    "ML-STATE-META": lambda v, b: NoEffect("`meta_state` holds the counters as text"),
    "ML-STATE-ROTATED": lambda v, b: NoEffect(f"`rotated` is read from a text: {v:d}"),
    "ML-STATE-ARRAYS": lambda v, b: NoEffect("`state` of an ArraysCache"),
    "ML-ARRAYS-MASK": lambda v, b: (
        "a mask keeps padding out of the recurrent state" if v else NoEffect("no padding to mask")),
    "ML-ARRAYS-MERGE": lambda v, b: NoEffect(f"left_padding of a merged batch of {b['rows']}"),
    "ML-ARRAYS-EXTEND": _extended,
    "ML-ARRAYS-PAD": lambda v, b: NoEffect("left_padding and lengths joined"),
}

VARIANTS: dict[str, Say] = {
    "ML-ARRAYS-TRIM.reset": lambda v, b: "recurrent states count as trimmable: a trim resets them",
    "ML-RING-TRIMMABLE.always": lambda v, b: NoEffect(f"RotatingKVCache is trimmable at any time ({b['held']} tokens)"),
    "ML-RING-EXTRACT-OFFSET.offset":
        lambda v, b: NoEffect(f"offset of the extracted row = {v}, every token it ever saw"),
    "ML-RING-EXTRACT-OFFSET.length": lambda v, b: NoEffect(f"offset of the extracted row = {v}, the columns it holds"),
    "ML-RING-EXTRACT-EMPTY.refused": lambda v, b: NoEffect("row extracted: the batch has a buffer"),
    "ML-RING-MERGE.idx": lambda v, b: NoEffect(
        f"RotatingKVCache joins a batch with all entries in _idx = {v.width} columns"),
    "ML-CHUNK-TRIM-FRONT.valid": lambda v, b: NoEffect(
        f"ChunkedKVCache: {b['valid']} valid tokens, chunk_size {b['chunk_size']}"
        + (f", columns {v.start}..{v.stop - 1} stay" if v else "")),
    "ML-CHUNK-TRIM-FRONT.allocated": lambda v, b: NoEffect(
        f"ChunkedKVCache: {b['allocated']} allocated columns, chunk_size {b['chunk_size']}"
        + (f", columns {v.start}..{v.stop - 1} stay" if v else "")),
    "ML-STATE-SAVE.whole": lambda v, b: NoEffect("`state` is the whole buffer and every counter"),
    "ML-STATE-SAVE.cut": lambda v, b: NoEffect("`state` is the buffer cut to its valid columns"),
    "ML-STATE-RESTORE.whole": lambda v, b: NoEffect("buffer and counters are set as they were"),
    "ML-STATE-RESTORE.cut": lambda v, b: NoEffect("the buffer is set cut; missing counters are its length"),
    "ML-STATE-META.none": lambda v, b: NoEffect("there is no `meta_state`"),
    "ML-STATE-ARRAYS.slots": lambda v, b: NoEffect("`state` of an ArraysCache is its slots only"),
    "ML-STATE-ARRAYS.padded": lambda v, b: NoEffect("`state` of an ArraysCache is its slots, left_padding and lengths"),
    "ML-ARRAYS-MASK.padding": lambda v, b: "left_padding (else lengths) masks the recurrent state" if v else NoEffect(
        "no padding to mask"),
    "ML-ARRAYS-MASK.both": lambda v, b: "left_padding and lengths mask the recurrent state" if v else NoEffect(
        "no padding to mask"),
    "ML-ARRAYS-MERGE.none": lambda v, b: NoEffect("a merged batch of new caches has no left_padding"),
    "ML-ARRAYS-MERGE.zeros": lambda v, b: NoEffect(
        f"a merged batch of new caches has left_padding 0 in {counted(b['rows'], 'row')}"),
    "ML-ARRAYS-EXTEND.other": lambda v, b: NoEffect("states joined; an empty side adds no rows"),
    "ML-ARRAYS-EXTEND.zeros": lambda v, b: NoEffect("states joined; an empty side adds rows of zeros"),
    "ML-ARRAYS-PAD.own": lambda v, b: NoEffect("left_padding and lengths of the joining rows are dropped"),
}
