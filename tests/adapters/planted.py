"""Faults planted in the classes of released packages: the histories and the CPU time until an adapter finds each.

    make adapters ARGS=--planted                        # all, in their environments
    python -m tests.adapters.planted sglang_radix       # one, in an environment that has the package

An adapter runs with twice as many drawn histories each time, from one on, until the report has a failure.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import time
from contextlib import suppress
from typing import Any, Callable, NamedTuple

from cachesim.tools import conformance

MOST = 256               # drawn histories


class Planted(NamedTuple):
    """A fault in the method of a class. ``change`` takes the method and returns the faulty one."""

    fault: str
    kind: str                # argument of the adapter
    place: str               # module and class
    method: str
    change: Callable[[Any], Any]


FAULTS = {
    "transformers_crop": Planted("crop() keeps a token too many", "Llama", "transformers.cache_utils:DynamicCache",
                                 "crop", lambda crop: lambda self, n: crop(self, n + 1 if n < -1 else n)),
    "mlx_lm_lru": Planted("a cache is trimmed by a token too few", "llama", "mlx_lm.models.cache:KVCache", "trim",
                          lambda trim: lambda self, n: (trim(self, n - 1) + 1) if n > 1 else trim(self, n)),
    "vllm_blocks": Planted("a block that is handed out again keeps its hash", "full",
                           "vllm.v1.core.block_pool:BlockPool", "_maybe_evict_cached_block",
                           lambda _: lambda self, block: False),
    "sglang_radix": Planted("an evicted leaf stays in the tree", "4", "sglang.srt.mem_cache.radix_cache:RadixCache",
                            "_delete_leaf", lambda _: lambda self, node: self.evictable_leaves.discard(node)),
    "nano_vllm": Planted("a block's hash leaves out the blocks before", "4",
                         "nanovllm_voxcpm.engine.block_manager:BlockManager", "compute_hash",
                         lambda hashed: classmethod(lambda cls, tokens, prefix=-1: hashed(tokens))),
}  # fmt: skip


def plant(planted: Planted) -> None:
    """Replace the method of the class."""
    module, _, name = planted.place.partition(":")
    kind = getattr(importlib.import_module(module), name)
    setattr(kind, planted.method, planted.change(getattr(kind, planted.method)))


def find(module: str) -> bool:
    """Plant the fault of an adapter and run it; print a line. Return True if it was found."""
    planted, conform, found = FAULTS[module], conformance.conform, []

    def repeated(factory: Any, **arguments: Any) -> Any:
        plant(planted)
        report, number = None, 1
        while number <= MOST and not found:
            began = time.process_time()
            report = conform(factory, **{**arguments, "max_examples": number})
            if report.failing:
                found.append((report, time.process_time() - began))
            number *= 2
        return report

    sys.argv = [module, planted.kind]
    conformance.conform = repeated
    with suppress(SystemExit):
        runpy.run_module(f"tests.adapters.{module}", run_name="__main__")
    for report, seconds in found[:1]:
        first = report.failing[0]
        print(f"{module}: {planted.fault}: {first.name} {first.finding and first.finding.line}, "
              f"{report.histories} histories, {seconds:.1f} s of CPU")  # fmt: skip
    if not found:
        print(f"{module}: {planted.fault}: NOT FOUND")
    return bool(found)


if __name__ == "__main__":
    sys.exit(not find(sys.argv[1]))
