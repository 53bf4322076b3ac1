"""Small memories, filled by decoding as in a server."""

from __future__ import annotations

from cachesim.engines.llama_cpp.memory.cell_ranges import index
from cachesim.engines.llama_cpp.memory.context import Context
from cachesim.engines.llama_cpp.memory.hybrid_memory import PAD, Memory, Sizes
from cachesim.engines.llama_cpp.memory.model_layout import model_kind
from cachesim.engines.llama_cpp.memory.ubatch import DecodeBatch
from cachesim.engines.llama_cpp.rules.seq_rm_and_state import keep_window, rs_rm_3
from cachesim.model import make_model

KINDS = {"A": "AA", "W": "W8 A", "R": "SS", "H": "GA", "HW": "C W8"}


class World:
    """A context and its log. ``world.go(seq, pos0, n)`` decodes n tokens; digests of rows are real."""

    def __init__(self, model, n_seq=1, unified=False, n_ctx_seq=64, n_ubatch=4, swa_full=False, window_pad=PAD,
                 exact=False):  # fmt: skip
        self.kind = model_kind(KINDS.get(model, model))
        self.events = []
        net = make_model(self.kind.spec, exact=exact)
        self.memory = Memory(
            self.kind, Sizes(n_seq, unified, n_ctx_seq, n_ubatch, swa_full, window_pad=window_pad), net,
            keep=lambda pos, last, n: keep_window(pos, last, n).value,
            refuses=lambda pos, p0, p1, planes: rs_rm_3(pos, p0, p1, False).value, emit=self.events.append,
        )
        self.context = Context(self.memory, net, 2048, n_ubatch, self.events.append)

    def go(self, seq=0, pos0=None, n=1, base=100):
        """Decode tokens base + position; return llama_decode's code."""
        start = self.memory.pos_max(seq) + 1 if pos0 is None else pos0
        batch = DecodeBatch()
        for pos in range(start, start + n):
            batch.add(base + pos, pos, seq, False)
        code = self.context.decode(batch)
        self.memory.check()
        return code

    def logged(self):
        """Texts of warnings and errors."""
        return [event.text for event in self.events if hasattr(event, "text")]

    def range(self, seq=0):
        """(pos_min, pos_max)"""
        return self.memory.pos_min(seq), self.memory.pos_max(seq)


def held(cache, seq=0):
    """Return the positions of the sequence in an attention cache, ascending."""
    table = cache.cells(seq)
    return sorted(table.pos[index(table.of(seq))].tolist())
