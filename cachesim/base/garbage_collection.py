"""Frequency of the cyclic garbage collector during a simulation."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import Iterator


@contextmanager
def with_rare_garbage_collection() -> Iterator[None]:
    """Run the cyclic garbage collector only after every 100,000 allocations. A conversation allocates about 10,000
    objects; with the default threshold the collector takes up to a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def free_last_run() -> None:
    """Free the objects of the run that ended last, which refer to each other: early, so that the next run uses the same
    memory, which is in the processor's cache. Older objects are not examined."""
    gc.collect(0)
