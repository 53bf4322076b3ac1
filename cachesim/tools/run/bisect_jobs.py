"""Comparison of neighbouring rule sets for ``bisect``, in several processes where that is faster."""

from __future__ import annotations

import time
from itertools import chain
from typing import Any, Iterator, Sequence

from cachesim.base.pool import cores, results_in_order
from cachesim.engines.registry import engine_named
from cachesim.judging.find_change import Bisection, ComparedNeighbours
from cachesim.scenarios.schema import Scenario

SEEN = 1.0             # seconds of work from which the rest is estimated
LONG = 2.0             # seconds of the rest from which on several processes are faster in spite of their start
PARTS = 8              # parts of the pairs for each process, because neighbours that differ take longer

Pairs = Sequence[tuple[str, str]]


class NeighbourComparison:
    """Comparison of neighbours in a worker process, which keeps its runs for further pairs. A forked process goes on
    with the runs of ``bisection``, another process begins anew: a bisection cannot be pickled. ``mode``, ``log``: those
    of the ``Bisection``."""

    def __init__(self, scenario: Scenario, mode: str, log: bool, bisection: Bisection | None = None) -> None:
        self.scenario = scenario
        self.mode = mode
        self.log = log
        self._bisection = bisection

    def __reduce__(self) -> tuple[Any, ...]:
        return NeighbourComparison, (self.scenario, self.mode, self.log)

    def __call__(self, pairs: Pairs) -> list[ComparedNeighbours]:
        if self._bisection is None:
            engine = engine_named(self.scenario.engine)
            self._bisection = Bisection(self.scenario, engine, self.mode, self.log)
        return list(self._bisection.compared(pairs))


def compared_neighbours(bisection: Bisection, pairs: Pairs, jobs: int | None) -> Iterator[ComparedNeighbours]:
    """Compare neighbours, and yield the comparisons in order. Raise the error of the first comparison that fails.
    ``jobs``: number of processes, None = one until the comparisons so far show that the rest takes long."""
    processes = jobs or cores()
    started = time.monotonic()
    for number, pair in enumerate(pairs):
        seconds = time.monotonic() - started
        if processes > 1 and (jobs is not None or is_long(seconds, number, len(pairs))):
            work = NeighbourComparison(bisection.scenario, bisection.mode, bisection.log, bisection)
            parts = divided(pairs[number:], processes * PARTS)
            yield from chain.from_iterable(results_in_order(work, parts, processes))
            return
        yield from bisection.compared([pair])


def is_long(seconds: float, done: int, total: int) -> bool:
    """True if several processes are faster for the rest of the work. ``seconds``: duration of the items that are
    ``done``; ``total``: number of all items."""
    return seconds >= SEEN and seconds * (total - done) >= LONG * done


def divided(pairs: Pairs, parts: int) -> list[Pairs]:
    """Return consecutive parts of about equal length: neighbours share runs."""
    size = max(1, -(-len(pairs) // parts))
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]
