"""Comparison of the memory with a naive model after each of equal random operations.

The naive model knows positions only: attention as a dict cell -> (position, sequences), the state as a dict sequence ->
position. It follows the specification (2.3 to 2.7), shares no code with the memory, and has no arrays.
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.engines.llama_cpp.memory.saved_state import StateReadError
from tests.unit.engines.llama_cpp.memory.helpers import KINDS, World, held

INF = 2**31 - 1
N_SEQ = 3


class NaiveAttention:
    """A cell table: cell -> (position, set of sequences)."""

    def __init__(self, size, n_swa):
        self.size, self.n_swa, self.head, self.cells = size, n_swa, 0, {}

    def of(self, seq):
        return {pos: i for i, (pos, seqs) in self.cells.items() if seq in seqs}

    def ends(self, seq):
        return (min(self.of(seq)), max(self.of(seq))) if self.of(seq) else (-1, -1)

    def rm(self, seq, p0, p1):
        freed = []
        for i, (pos, seqs) in list(self.cells.items()):
            if p0 <= pos < p1 and (seq < 0 or seq in seqs):
                if seq >= 0 and len(seqs) > 1:
                    seqs.discard(seq)
                else:
                    del self.cells[i]
                    freed.append(i)
        if freed and min(freed) < self.head:
            self.head = min(freed)

    def free(self, i):
        if i not in self.cells:
            return True
        pos, seqs = self.cells[i]
        return bool(self.n_swa) and len(seqs) == 1 and self.ends(next(iter(seqs)))[1] + 1 - pos >= self.n_swa

    def find(self, n):
        start = 0 if self.head > len(self.cells) + 2 * n else self.head
        found = [i % self.size for i in range(start, start + self.size) if self.free(i % self.size)][:n]
        return found if len(found) == n else None

    def put(self, seq, positions):
        """Store the positions of a sequence. Return False without room."""
        found = self.find(len(positions))
        if found is None:
            return False
        lost = {}
        for i, pos in zip(found, positions, strict=True):
            if i in self.cells:
                old, seqs = self.cells[i]
                lost[min(seqs)] = max(old, lost.get(min(seqs), -1))
            self.cells[i] = (pos, {seq})
        for other, last in lost.items():
            if 0 <= self.ends(other)[0] <= last:
                self.rm(other, self.ends(other)[0], last + 1)
        self.head = found[-1] + 1
        return True

    def share(self, src, dst):
        for _, seqs in self.cells.values():
            if src in seqs:
                seqs.add(dst)


class NaiveMemory:
    """Streams of attention for each part, and a state position per sequence."""

    def __init__(self, world, unified):
        self.unified = unified
        self.parts = {
            name: [NaiveAttention(part.size, part.n_swa) for _ in range(1 if unified else N_SEQ)]
            for name, part in world.memory.parts.items()
        }
        self.state = {} if world.memory.recr is not None else None
        self.mrope = world.kind.mrope

    def tables(self, seq):
        return {name: streams[0 if self.unified else seq] for name, streams in self.parts.items()}

    def ends(self, seq):
        """Return (pos_min, pos_max). In a pair the window decides. With a state: the larger start and the smaller
        end."""
        tables = self.tables(seq)
        found = [tables[name].ends(seq) for name in ("swa", "base") if name in tables][:1]
        if self.state is not None:
            found.append((self.state.get(seq, -1),) * 2)
        return max(lo for lo, _ in found), min(hi for _, hi in found)

    def rm(self, seq, p0, p1=INF):
        if self.state is not None and 0 < p0 <= self.state.get(seq, -1) < p1:
            return False
        if self.state is not None and p0 <= self.state.get(seq, -1) < p1:
            del self.state[seq]
        for table in self.tables(seq).values():
            table.rm(seq, p0, p1)
        return True

    def decode(self, seq, n, n_ubatch):
        """Evaluate all or nothing: on copies first."""
        first = self.ends(seq)[1] + 1
        trial = deepcopy(self.tables(seq))
        for at in range(first, first + n, n_ubatch):
            chunk = range(at, min(at + n_ubatch, first + n))
            if not all(table.put(seq, chunk) for table in trial.values()):
                return False
        for name, table in trial.items():
            self.parts[name][0 if self.unified else seq] = table
        if self.state is not None:
            self.state[seq] = first + n - 1
        return True

    def copy(self, src, dst):
        self.rm(dst, 0)
        for streams in self.parts.values():
            if self.unified:
                streams[0].share(src, dst)
                continue
            mine, theirs = streams[dst], streams[src]
            mine.cells = {i: (pos, {dst}) for i, (pos, seqs) in theirs.cells.items() if src in seqs}
            mine.head = theirs.head
        if self.state is not None and src in self.state:
            self.state[dst] = self.state[src]


def agree(world, naive):
    memory = world.memory
    memory.check()
    for seq in range(N_SEQ):
        assert (memory.pos_min(seq), memory.pos_max(seq)) == naive.ends(seq)
        for name, table in naive.tables(seq).items():
            assert held(memory.parts[name], seq) == sorted(table.of(seq))
            real = memory.parts[name].cells(seq)
            assert {int(real.pos[i]): int(i) for i in real.of(seq)} == table.of(seq)
            assert real.head == table.head


seqs = st.integers(0, N_SEQ - 1)
decoding = st.tuples(st.just("decode"), seqs, st.integers(1, 24))
OPS = st.one_of(
    decoding, decoding,
    st.tuples(st.just("cut"), seqs, st.integers(0, 30)),
    st.tuples(st.just("cut_behind"), seqs, st.integers(-2, 4)),
    st.tuples(st.just("inside"), seqs, st.integers(0, 20), st.integers(0, 20)),
    st.tuples(st.just("copy"), seqs, seqs),
    st.tuples(st.just("save"), seqs),
    st.tuples(st.just("load"), seqs),
)  # fmt: skip


class Pair:
    """A memory and its naive model, with a saved state of each."""

    def __init__(self, kind, unified, n_ctx_seq, n_ubatch):
        self.world = World(
            kind, n_seq=N_SEQ, unified=unified, n_ctx_seq=n_ctx_seq, n_ubatch=n_ubatch, window_pad=8
        )                                                                   # small rings, so that they wrap
        self.naive = NaiveMemory(self.world, unified)
        self.n_ubatch, self.saved = n_ubatch, None

    def do(self, op, seq, *more):
        getattr(self, op)(seq, *more)
        agree(self.world, self.naive)

    def decode(self, seq, n):
        said = self.world.go(seq, n=n) == 0
        assert said == self.naive.decode(seq, n, self.n_ubatch)

    def cut(self, seq, p0):
        assert self.world.memory.seq_rm(seq, p0) == self.naive.rm(seq, p0)

    def cut_behind(self, seq, more):
        self.cut(seq, max(0, self.naive.ends(seq)[1] + more))

    def inside(self, seq, p0, n):
        """Remove positions inside, except in windows, whose positions must stay without gaps."""
        if "swa" not in self.naive.parts and "base" in self.naive.parts:
            assert self.world.memory.seq_rm(seq, p0, p0 + n) == self.naive.rm(seq, p0, p0 + n)

    def copy(self, src, dst):
        if src == dst or self.naive.ends(src)[1] < 0:
            return
        assert self.world.memory.seq_rm(dst, 0) == self.naive.rm(dst, 0)
        self.world.memory.seq_cp(src, dst)
        self.naive.copy(src, dst)

    def save(self, seq):
        """Save a sequence unless it is empty: the server checks this first, and restoring an empty state would leave
        old cells."""
        if self.naive.ends(seq)[1] < 0:
            return
        window = self.world.kind.n_swa
        last = self.naive.ends(seq)[1]
        held_by = {name: table.of(seq) for name, table in self.naive.tables(seq).items()}
        lists = {
            name: [p for p, _ in sorted(cells.items(), key=lambda item: item[1]) if name == "base" or last - p < window]
            for name, cells in held_by.items()
        }
        state = None if self.naive.state is None else self.naive.state.get(seq, -1)
        self.saved = (self.world.memory.state_write(seq, partial=False), lists, state)

    def load(self, seq):
        if self.saved is None:
            return
        blob, lists, state = self.saved
        try:
            self.world.memory.state_read(seq, blob)
            fits = True
        except StateReadError:
            fits = False
        assert fits == self._load_naive(seq, lists, state)
        if not fits:                        # the server clears the slot
            self.world.memory.seq_rm(seq, 0)
            self.naive.rm(seq, 0)

    def _load_naive(self, seq, lists, state):
        for name, positions in lists.items():
            table = self.naive.tables(seq)[name]
            if positions:
                table.rm(seq, 0, INF)
                if not table.put(seq, positions):
                    return False
        if state is not None:
            self.naive.state.pop(seq, None)
            if state >= 0:
                self.naive.state[seq] = state
        return True


@settings(max_examples=100)
@given(
    st.sampled_from(sorted(KINDS)), st.booleans(), st.sampled_from([24, 40, 120]), st.integers(1, 9),
    st.lists(OPS, min_size=4, max_size=30),
)  # fmt: skip
def test_the_memory_does_what_its_naive_copy_does(kind, unified, n_ctx_seq, n_ubatch, ops):
    pair = Pair(kind, unified, n_ctx_seq, n_ubatch)
    for op in ops:
        pair.do(*op)
