"""Memory of a context: attention caches and recurrent cells with a common set of operations.

base, swa, recr   parts (see model_layout.py); a model has those that its layers need
full state        everything of a sequence; partial state: only what cannot be rolled back

Source: llama.cpp src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, llama-memory-recurrent.cpp, llama-memory-hybrid.cpp,
llama-memory-hybrid-iswa.cpp (3f545be).
"""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import Crash, ProcessAborted
from cachesim.base.tokens import POS_INF
from cachesim.engines.llama_cpp.memory.attention import AttentionCache, Emit
from cachesim.engines.llama_cpp.memory.cell_ranges import Found
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.recurrent import RecurrentCache, Refuses
from cachesim.engines.llama_cpp.memory.saved_state import Blob, KeepCells, StateReadError
from cachesim.engines.llama_cpp.memory.ubatch import (
    BuildTraits,
    DecodeBatch,
    Ubatch,
    split_equal,
    split_seq,
    split_simple,
)
from cachesim.engines.llama_cpp.memory.ubatch_view import PlacedUbatch, UbatchStore
from cachesim.engines.shared.slot_events import Error
from cachesim.events import SeqRm
from cachesim.model import Model
from cachesim.model.store import index_of

PAD = 256        # cells of every cache are a multiple of this


def pad(n: int, to: int = PAD) -> int:
    """Round n up to a multiple of ``to``."""
    return -(-n // to) * to


class Sizes(NamedTuple):
    """Sizes of the buffers."""

    n_seq: int
    unified: bool
    n_ctx_seq: int               # context of a sequence [tokens]
    n_ubatch: int
    swa_full: bool
    n_rs_seq: int = 0            # tokens by which a recurrent state can be rolled back
    window_pad: int = PAD        # a window cache has a multiple of this many cells


def window_cells(kind: ModelKind, sizes: Sizes) -> int:
    """Return the number of cells of the window cache."""
    if sizes.swa_full:
        return sizes.n_ctx_seq
    sequences = sizes.n_seq if sizes.unified else 1
    return pad(min(sizes.n_ctx_seq, kind.n_swa * sequences + sizes.n_ubatch), sizes.window_pad)


def can_shift(kind: ModelKind, sizes: Sizes, is_fixed: bool) -> bool:
    """True if the server takes positions for movable: no row stands for several of them, and a window cache is as large
    as the full-attention cache. ``is_fixed``: positions of this model stay in their places."""
    if is_fixed or kind.kind == "dsv4":
        return False
    return not kind.swa or window_cells(kind, sizes) == sizes.n_ctx_seq


class Memory:
    """Memory of a context with ``n_seq`` sequences. ``model`` None = positions only. ``names_parts``: an error names
    the part of a hybrid for which there is no room."""

    names_parts = True

    def __init__(
        self, kind: ModelKind, sizes: Sizes, model: Model | None, keep: KeepCells, refuses: Refuses, emit: Emit,
        traits: BuildTraits = BuildTraits(),  # noqa: B008 - immutable
    ) -> None:
        self.traits = traits
        self.kind = kind
        self.sizes = sizes
        self.keep = keep
        self.refuses = refuses
        self.emit = emit
        self.parts: dict[str, AttentionCache] = {}

        def attention(part: str, size: int, n_swa: int, layers: tuple[int, ...]) -> AttentionCache:
            shape = kind.attention_shape(part)
            return AttentionCache(size, sizes.n_seq, sizes.unified, n_swa, layers, shape, model, emit, traits)

        if kind.kind != "R":
            n_swa = kind.n_swa if kind.n_swa and traits.mask_model else 0
            self.parts["base"] = attention("base", sizes.n_ctx_seq, n_swa, kind.base)
        if kind.idx:
            self.parts["idx"] = attention("idx", sizes.n_ctx_seq, 0, tuple(index_of(i) for i in kind.idx))
        if kind.swa:
            n_swa = kind.n_swa if not sizes.swa_full or traits.full_forgets else 0
            self.parts["swa"] = attention("swa", window_cells(kind, sizes), n_swa, kind.swa)
        self.recr: RecurrentCache | None = None
        if kind.recr:
            self.recr = RecurrentCache(
                sizes.n_seq,
                kind.recr,
                shape=kind.recr_shape(),
                refuses=refuses,
                emit=emit,
                n_rs_seq=sizes.n_rs_seq,
                traits=traits,
            )
        self._unified = sizes.unified or sizes.n_seq == 1
        self._cut = traits.split(sizes.n_rs_seq, bool(self.parts), self._unified)
        # pos_min and pos_max of a pair of attention caches are those of the window cache.
        answers = [*self.parts.values()][-1:]
        recurrent = [self.recr] if self.recr is not None else []
        self._position_parts: list[AttentionCache | RecurrentCache] = [*answers, *recurrent]
        self._all: list[AttentionCache | RecurrentCache] = [*self.parts.values(), *recurrent]

    # --- queries --------------------------------------------------------------------------------------------

    def pos_min(self, seq: int) -> int:
        """Return the first position from which everything up to pos_max is present, -1 = none."""
        return max([part.pos_min(seq) for part in self._position_parts])

    def pos_max(self, seq: int) -> int:
        """Return the last position of the sequence, -1 = none."""
        return min([part.pos_max(seq) for part in self._position_parts])

    def can_shift(self) -> bool:
        """True if the server takes positions for movable (see the function ``can_shift``)."""
        return can_shift(self.kind, self.sizes, self.kind.mrope and self.traits.mrope == "fixed")

    # --- sequence operations ----------------------------------------------------------------------------------

    def clear(self) -> None:
        """Empty every part."""
        for part in self._all:
            part.clear()

    def seq_rm(self, seq: int, p0: int, p1: int = POS_INF) -> bool:
        """Remove positions p0 .. p1-1. Return False, with nothing changed, if the recurrent part refuses; it is
        processed first."""
        ok = self.recr is None or self.recr.seq_rm(seq, p0, p1)
        if ok:
            for cache in self.parts.values():
                cache.seq_rm(seq, p0, p1)
        self.emit(SeqRm(seq, p0, p1, ok))
        return ok

    def seq_cp(self, src: int, dst: int) -> None:
        """Make ``dst`` a copy of ``src``."""
        for part in self._all:
            part.seq_cp(src, dst)

    def seq_keep(self, seq: int) -> None:
        """Remove all sequences but ``seq`` (from the stream of ``seq``)."""
        for part in self._all:
            part.seq_keep(seq)

    def seq_add(self, seq: int, p0: int, p1: int, delta: int) -> None:
        """Move positions p0 .. p1-1 by delta."""
        for part in self._all:
            part.seq_add(seq, p0, p1, delta)

    def seq_div(self, seq: int, p0: int, p1: int, d: int) -> None:
        """Divide positions p0 .. p1-1 by d, rounding down."""
        for part in self._all:
            part.seq_div(seq, p0, p1, d)

    # --- decoding -------------------------------------------------------------------------------------------

    def pending(self) -> Iterator[tuple[int, int]]:
        """Yield the sequences whose rows ``init_update`` will copy or rotate, each with the first of these
        positions."""
        for cache in self.parts.values():
            for _, dst in cache.copies:
                yield dst, 0
            for table in cache.streams:
                for seq, used in enumerate(table.seqs if table.has_shift else ()):
                    moved = table.pos[used & (table.shift != 0)]
                    if len(moved):
                        yield seq, int(moved.min())

    def init_update(self) -> None:
        """Do the pending work: copies of whole streams, then the K-shift of moved cells."""
        for cache in self.parts.values():
            cache.apply_copies()
            cache.apply_shift()

    def init_batch(self, batch: DecodeBatch, n_ubatch: int) -> list[PlacedUbatch] | None:
        """Split a batch and find cells for all of it; None = FAILED_PREPARE, nothing has changed."""
        for ubatches in self._splits(batch, n_ubatch):
            placed = self._prepare(ubatches)
            if placed is not None:
                return placed
        return None

    def _splits(self, batch: DecodeBatch, n_ubatch: int) -> list[list[Ubatch]]:
        """Return the splits of the batch in the order in which they are tried."""
        if self.recr is not None:
            if self._cut.alone:
                return [split_seq(batch, n_ubatch)]
            cut = split_equal(batch, n_ubatch, self._cut.sequential, self._cut.n_keep_tail)
            if self._cut.lost:
                text = "Segmentation fault: no micro-batch to evaluate" if len(cut) > 1 else "init_batch never ends"
                raise ProcessAborted(text, "batch-lost", n=len(batch))
            return [cut]
        if not self._unified:
            return [split_equal(batch, n_ubatch, sequential=True)]
        simple = split_simple(batch, n_ubatch)
        if "swa" not in self.parts or len(set(batch.seq)) == 1:
            return [simple]
        return [simple, split_equal(batch, n_ubatch, sequential=False)]

    def _prepare(self, ubatches: Sequence[Ubatch]) -> list[PlacedUbatch] | None:
        hybrid = self.recr is not None and bool(self.parts) and self.names_parts
        if self.recr is not None and not self.recr.prepare(ubatches):
            if hybrid:
                self.emit(Error("init_batch: failed to prepare recurrent ubatches"))
            return None
        found: dict[str, list[list[Found]]] = {}
        for name, cache in self.parts.items():
            cells = cache.prepare(ubatches)
            if cells is None:
                if hybrid:
                    part = f"attention {name}" if "swa" in self.parts else "attention"
                    self.emit(Error(f"init_batch: failed to prepare {part} ubatches"))
                return None
            found[name] = cells
        return [
            PlacedUbatch(ubatch, {name: cells[i] for name, cells in found.items()}) for i, ubatch in enumerate(ubatches)
        ]

    def has_room(self, tokens: Mapping[int, int]) -> bool:
        """True if every attention cache has cells for so many further tokens of each sequence."""
        return all(cache.has_room(tokens) for cache in self.parts.values())

    def apply(self, placed: PlacedUbatch) -> None:
        """Write the metadata of a ubatch."""
        if self.recr is not None:
            self.recr.apply(placed.ubatch)
        for name, cache in self.parts.items():
            cache.apply(placed.ubatch, placed.found[name])

    def store(self, placed: PlacedUbatch) -> UbatchStore:
        """Return the model's view of the memory for a ubatch whose metadata is written."""
        return UbatchStore(placed.ubatch, self.parts, placed.found, self.recr)

    # --- saving and loading ------------------------------------------------------------------------------------

    def state_size(self, seq: int, partial: bool) -> int:
        """Return the size of a saved state [bytes]. ``partial``: as for ``state_write``."""
        return self._size_with(sum(cache.state_size(seq, self.keep) for cache in self._saved(partial).values()), seq,
                               partial)  # fmt: skip

    def _size_with(self, cells: int, seq: int, partial: bool) -> int:
        """Return the size of a saved state whose attention caches take ``cells`` bytes."""
        return cells + (self.recr.state_size(seq) if self.recr is not None else 0)

    def _saved(self, partial: bool) -> dict[str, AttentionCache]:
        """Return the attention caches, full and window, that a saved state contains. A ``partial`` state leaves out
        those that keep all rows and can be rolled back; a state of an attention-only model always contains
        everything."""
        if not partial or self.kind.saves_all:
            return self.parts
        return {name: cache for name, cache in self.parts.items() if name == "swa" and cache.n_swa}

    def state_write(self, seq: int, partial: bool) -> Blob:
        """Return a copy of the sequence, or (``partial``) of the parts that cannot be rolled back."""
        saved = self._saved(partial)
        states = {name: cache.state_write(seq, self.keep) for name, cache in saved.items()}
        recr = self.recr.save(seq) if self.recr is not None else None
        cells = sum(saved[name].size_of(len(state.pos)) for name, state in states.items())
        size = self._size_with(cells, seq, partial)
        return Blob(size, states.get("base"), swa=states.get("swa"), recr=recr, idx=states.get("idx"))

    def state_read(self, seq: int, blob: Blob, home: int | None = None) -> None:
        """Restore a state part by part; ``home``: as for ``RecurrentCache.state_read``. Raise StateReadError if a part
        has too few free cells. This part is then empty; earlier parts are already replaced, or emptied too if the build
        does so (``fail_undoes``)."""
        for name, state in (("base", blob.base), ("idx", blob.idx), ("swa", blob.swa)):
            if state is not None:
                self.parts[name].state_read(seq, state)
        if blob.recr is not None and self.recr is not None:
            try:
                self.recr.state_read(seq, blob.recr, home)
            except StateReadError:
                if self.traits.fail_undoes and blob.base is not None and "swa" not in self.parts:
                    self.parts["base"].seq_rm(seq, 0, POS_INF)
                raise

    def check(self) -> None:
        """Raise Crash unless every part is consistent and both attention caches end at the same positions."""
        for part in self._all:
            part.check()
        if {"base", "swa"} <= self.parts.keys():
            for seq in range(self.sizes.n_seq):
                ends = {cache.pos_max(seq) for cache in self.parts.values()}
                if len(ends) > 1 and -1 not in ends:
                    raise Crash(f"base and window cache end at different positions {sorted(ends)}")
