"""Which sizes does a server state? Lengths of prompts crowd around them: a batch's end is where things happen."""

from __future__ import annotations

from typing import Any, Iterator, Mapping

NAMES = ("n_batch", "n_ubatch", "n_swa", "sliding_window", "block_size", "page_size", "chunk_size")
CONTEXTS = ("n_ctx", "max_model_len", "context_length")
LARGEST, DEEP = 1 << 24, 4


def sizes_of(*said: Any) -> tuple[int, ...]:
    """Sizes of batches, blocks and windows that are somewhere in what a server says of itself."""
    return tuple(sorted({size for one in said for name, size in _numbers(one, DEEP) if name in NAMES and size > 1}))


def context_of(default: int, *said: Any) -> int:
    """Tokens that a slot takes."""
    found = [size for one in said for name, size in _numbers(one, DEEP) if name in CONTEXTS and size > 1]
    return min(found, default=default)


def _numbers(said: Any, deep: int) -> Iterator[tuple[str, int]]:
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    if isinstance(said, Mapping):
        yield from ((str(key), one) for key, one in said.items() if type(one) is int and one <= LARGEST)
    for one in inner if deep else ():
        yield from _numbers(one, deep - 1)
