"""Slot of 128k tokens with 32 checkpoints, for measuring memory."""

from __future__ import annotations

import numpy as np

from cachesim.engines.base import Request
from cachesim.engines.llama_cpp import start
from cachesim.engines.llama_cpp.server import Server
from cachesim.events import Log
from cachesim.model import Rows

N = 131_072 - 256


def big_slot(mode: str) -> Server:
    """Return a server with the slot. Provenance: a real prefill with a checkpoint every 4096 tokens. Exact: a short
    real prefill for the states, other cells filled."""
    flags = {"ctx_size": 131_072, "batch_size": 512, "ubatch_size": 512, "checkpoint_min_step": 0}
    server = start("llama_cpp@b10587", "GGGA", flags, mode, Log())
    n = N if mode == "provenance" else 2048
    starts = tuple(range(n // 32, n, n // 32))
    server.complete(Request(tuple(range(n)), n_predict=1, user_starts=starts))
    if mode == "exact":
        _fill(server)
    assert len(server.slots[0].checkpoints) == 32
    return server


def _fill(server: Server) -> None:
    """Fill every cell of the slot with numbers, as a prefill of the whole context would."""
    for cache in server.memory.parts.values():
        table = cache.streams[0]
        table.reach(N)
        free = np.flatnonzero(table.pos < 0)[: N - int((table.pos >= 0).sum())]
        first = table.span(0)[1] + 1
        table.place(free, np.arange(first, first + len(free)), 0)
        for layer, rows in cache.rows[0].items():
            assert rows.k is not None and rows.v is not None
            k, v = (np.ones((len(free), *x.shape[1:])) for x in (rows.k, rows.v))
            filler = Rows(np.ones(len(free), np.uint64), k, v)
            cache.write(0, layer, free, filler)
