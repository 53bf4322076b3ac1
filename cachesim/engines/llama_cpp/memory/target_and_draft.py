"""Target and draft context as one memory: every removal, copy and move happens in both.

Source: llama.cpp common/common.cpp common_memory (3f545be).
"""

from __future__ import annotations

from cachesim.base.errors import ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.hybrid_memory import Memory


class CommonMemory:
    """The target's memory, and the draft context's where there is one."""

    def __init__(self, tgt: Memory, dft: Memory | None) -> None:
        self.tgt, self.dft = tgt, dft
        self.all = [tgt] if dft is None else [tgt, dft]

    def must_rm(self, seq: int, p0: int, p1: int = POS_INF) -> None:
        """Remove positions p0 .. p1-1 from both. Raises Aborted if one refuses: the process ends there."""
        for memory in self.all:
            if not memory.seq_rm(seq, p0, p1):
                end = -1 if p1 == POS_INF else p1
                text = f"failed to remove sequence {seq} with p0={p0}, p1={end}"
                raise ProcessAborted(text, "removal-refused", seq=seq, p0=p0, p1=end)

    def seq_cp(self, src: int, dst: int) -> None:
        """``dst`` becomes a copy of ``src`` in both."""
        for memory in self.all:
            memory.seq_cp(src, dst)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move positions p0 .. p1-1 by delta in both."""
        for memory in self.all:
            memory.seq_add(seq, p0, p1, delta)
