"""Forward pass over a batch of rows that share their columns, with the engine's masks, paddings and lengths.

B rows of N tokens are evaluated at once. The masks of all layers are made first, before any cache changes. Then each
layer's cache stores the new rows of all B and returns its buffer. A token sees exactly what the mask allows: a wrong
mask, or a padding token that enters a state, changes the numbers.
Source: mlx-lm mlx_lm/models/{base,qwen3_next,mamba2}.py create_attention_mask, create_ssm_mask (d78bf58e).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import Crash
from cachesim.engines.mlx_lm.caches import BatchKVCache, ChunkedKVCache, KVCache
from cachesim.engines.mlx_lm.caches.array_ops import Ranges
from cachesim.engines.mlx_lm.caches.arrays_cache import Buffer
from cachesim.engines.mlx_lm.element_codec import LABEL, Array, pack_rows, pack_states, unpack_rows, unpack_state
from cachesim.engines.mlx_lm.events import VALUE_ERROR, Died
from cachesim.engines.mlx_lm.model_layout import rows_of, states_of
from cachesim.engines.shared.batch import join_runs
from cachesim.model import HiddenOutput, KVRows, Layer, LayerState, Model, Spec, TokenRun
from cachesim.model.attention_mask import MaskView, View
from cachesim.model.grid import Positions


class RowPiece(NamedTuple):
    """Tokens start .. stop-1 of a row. ``folded``: True if they enter the recurrent state. ``conv``: True if they
    also enter the inputs that the convolution keeps."""

    row: int
    start: int
    stop: int
    folded: bool
    conv: bool


def forward(
    model: Model | None, spec: Spec, caches: Sequence[Any], tokens: Sequence[Sequence[int]]
) -> list[HiddenOutput]:
    """Evaluate B rows of N tokens. Return a Hidden of N for each row. ``caches``: a cache for each layer, of B rows.
    ``model`` None: the caches change, and nothing is computed."""
    pad = BatchStore(spec, caches, tokens, exact=model is not None and model.exact)
    if model is None:
        pad.label()
        hidden = [HiddenOutput(np.zeros(len(row), np.uint64), None) for row in tokens]
    else:
        pieces = model.forward(pad.runs(), pad)
        hidden = pieces if len(pieces) == len(tokens) else [
            join_runs([out for out, piece in zip(pieces, pad.pieces, strict=True) if piece.row == row])
            for row in range(len(tokens))
        ]                                                                   # a row may consist of several pieces
    pad.done()
    return hidden


class BatchStore:
    """Row and state store of a forward pass over a batch."""

    def __init__(self, spec: Spec, caches: Sequence[Any], tokens: Sequence[Sequence[int]], exact: bool) -> None:
        self.spec = spec
        self.tokens = tokens
        self.exact = exact
        self.b, self.n = len(tokens), len(tokens[0])
        self.rows = [rows_of(cache) for cache in caches]
        self.arrays = [states_of(cache) for cache in caches]
        self._check_rows()
        for rows in self.rows:
            if isinstance(rows, ChunkedKVCache):            # the model does this before it makes its mask
                rows.maybe_trim_front()
        self.begins: dict[str, int] = {}                    # part -> its first layer, whose mask all its layers share
        for index, layer in enumerate(spec.layers):
            if layer.part:
                self.begins.setdefault(layer.part, index)
        self.masks = {part: self._mask(index) for part, index in self.begins.items()}
        self.first = self._offsets()
        self.pieces = self._cut()
        self.new: dict[int, list[KVRows]] = {}
        self.fetched: dict[int, tuple[Array, Array]] = {}
        self.states: dict[tuple[int, int], LayerState | None] = {}
        self.seen: dict[tuple[str, int], Array | slice] = {}

    def _check_rows(self) -> None:
        """Raise Died if a layer has states for fewer or more rows than the batch: such arrays do not fit."""
        for cache in self.arrays:
            for slot in cache.cache if cache is not None else ():
                if slot is not None and len(slot) != self.b:
                    text = f"ValueError: states of {len(slot)} rows in a batch of {self.b}"
                    raise Died(text, VALUE_ERROR, states=len(slot), rows=self.b)

    def _offsets(self) -> list[int]:
        """Return the position of each row's first token: the offset of the first K/V cache, without padding. In the
        engine each layer uses its own cache. The offsets differ only after trims by different amounts, and then the
        answer is wrong anyway."""
        cache = next((layer for layer in self.rows if layer is not None), None)
        if cache is None:
            return [0] * self.b
        return [cache.offset] * self.b if isinstance(cache.offset, int) else cache.offset.tolist()

    def _mask(self, index: int) -> Any:
        """Return the mask that all layers of a part share, made from the cache of the first: bool [B or 1, N, T],
        Ranges or None."""
        cache = self.rows[index]
        assert cache is not None
        window = 0 if type(cache) in (KVCache, BatchKVCache) else self.spec.layers[index].window    # a ring's own
        if isinstance(cache, ChunkedKVCache):
            mask = cache.chunk_mask(self.n)
        else:
            mask = cache.make_mask(self.n, return_array=False, window_size=window or None)
        if mask is None or isinstance(mask, str | Ranges):
            return mask
        return mask[:, 0] if mask.ndim == 4 else mask.reshape(1, self.n, -1)

    def _cut(self) -> list[RowPiece]:
        """Split each row's tokens into pieces whose tokens the recurrent layers treat alike."""
        cache = next((layer for layer in self.arrays if layer is not None), None)
        mask = None if cache is None else cache.make_mask(self.n)
        if cache is None or (cache.lengths is None and (mask is None or mask.all())):
            return [RowPiece(row, 0, self.n, True, True) for row in range(self.b)]
        real = np.broadcast_to(True if mask is None else mask, (self.b, self.n))
        ends = [self.n] * self.b if cache.lengths is None else cache.lengths
        return [piece for row in range(self.b) for piece in _pieces(row, real[row], int(ends[row]))]

    def runs(self) -> list[TokenRun]:
        """Return the pieces as runs for the model."""
        return [TokenRun(p.row, self.first[p.row] + p.start, self.tokens[p.row][p.start : p.stop]) for p in self.pieces]

    def view(self, part: str, run: int, asked: Positions) -> View:
        """Return the part of the mask that belongs to this piece."""
        piece, mask = self.pieces[run], self.masks[part]
        width = self.fetched[self.begins[part]][0].shape[2]
        if mask is None or isinstance(mask, str):                           # no mask, or the last rows of a causal mask
            hi = np.arange(piece.start, piece.stop) + width - self.n + 1
            self.seen[part, run] = slice(None)
            return MaskView(np.zeros_like(hi), hi, width)
        columns = mask.width if isinstance(mask, Ranges) else mask.shape[2]
        if columns != width:
            text = f"ValueError: a mask of {columns} columns over {width} rows"
            raise Died(text, VALUE_ERROR, columns=columns, rows=width)
        if isinstance(mask, Ranges):
            lo, hi = (side[piece.row if len(side) > 1 else 0, piece.start : piece.stop] for side in (mask.lo, mask.hi))
            return self._ranged(part, run, lo, hi)
        return self._masked(part, run, mask[piece.row if len(mask) > 1 else 0, piece.start : piece.stop])

    def _ranged(self, part: str, run: int, lo: Array, hi: Array) -> View:
        """Return the view of a mask that is given as rising ranges: the rows between the first and the last visible
        row."""
        if len(lo) == 1 and lo[0] < hi[0]:                                  # a single token that sees something
            start, stop = int(lo[0]), int(hi[0])
            self.seen[part, run] = slice(start, stop)
            return MaskView(np.zeros(1, np.int64), np.full(1, stop - start), stop - start)
        some = lo < hi
        start, stop = (int(lo[some].min()), int(hi[some].max())) if some.any() else (0, 0)
        self.seen[part, run] = slice(start, stop)
        high = np.maximum.accumulate(np.where(some, hi - start, 0))
        return MaskView(np.where(some, lo - start, high), high, stop - start)

    def _masked(self, part: str, run: int, own: Array) -> View:
        """Return the rows that any token of the piece sees, and the range of them that each token sees."""
        cells = np.flatnonzero(own[0] if len(own) == 1 else own.any(axis=0))
        dense = len(cells) and int(cells[-1]) - int(cells[0]) + 1 == len(cells)
        self.seen[part, run] = slice(int(cells[0]), int(cells[-1]) + 1) if dense else cells
        if len(own) == 1:                                                   # a single token sees all of them
            return MaskView(np.zeros(1, np.int64), np.full(1, len(cells)), len(cells))
        seen = own if len(cells) == own.shape[1] else own[:, cells]         # (t, n)
        count = np.count_nonzero(seen, axis=1)
        first = np.argmax(seen, axis=1) if len(cells) else count
        last = len(cells) - (np.argmax(seen[:, ::-1], axis=1) if len(cells) else count)
        hi = np.maximum.accumulate(np.where(count > 0, last, 0))
        lo = hi - count
        if not ((lo == first) | (count == 0)).all():        # a gap between visible rows, or not ascending
            raise Crash("a token sees rows with a gap between them")
        return MaskView(lo.astype(np.int64), hi.astype(np.int64), len(cells))

    def put_rows(self, layer: int, run: int, rows: KVRows) -> None:
        """Collect the new rows. Once all pieces have theirs, the layer's cache stores them."""
        held = self.new.setdefault(layer, [])
        held.append(rows)
        if len(held) == len(self.pieces):
            keys, values = pack_rows(held)
            self._update(layer, keys.reshape(self.b, 1, self.n, 1), values.reshape(self.b, 1, self.n, 1))

    def _update(self, layer: int, keys: Array, values: Array) -> None:
        cache = self.rows[layer]
        assert cache is not None
        try:
            self.fetched[layer] = cache.update_and_fetch(keys, values)
        except (RuntimeError, ValueError) as error:     # unfinalized ring; rows of another batch size
            raise Died(f"{type(error).__name__}: {error}", type(error).__name__) from error

    def get_rows(self, layer: int, run: int) -> KVRows:
        """Return the rows of the buffer that the piece's mask allows."""
        cells = self.seen[self.spec.layers[layer].part, run]
        keys, values = self.fetched[layer]
        row = self.pieces[run].row
        return unpack_rows(keys[row, 0, :, 0], values[row, 0, :, 0], cells)

    def get_state(self, layer: int, run: int) -> LayerState | None:
        """Return the current state of the piece's row."""
        row = self.pieces[run].row
        if (layer, row) not in self.states:
            cache = self.arrays[layer]
            assert cache is not None
            self.states[layer, row] = unpack_state(cache.cache, row, self.exact)
        return self.states[layer, row]

    def put_state(self, layer: int, run: int, state: LayerState) -> None:
        """Store the state after the piece. Parts of the state that the piece does not change keep their values."""
        piece = self.pieces[run]
        if not piece.conv:
            kept = self.states[layer, piece.row] or _zeroed(state)
            state = state._replace(conv=kept.conv, conv_x=kept.conv_x) if piece.folded else kept
        self.states[layer, piece.row] = state

    def label(self) -> None:
        """Advance the caches without contents."""
        blank = np.zeros((self.b, 1, self.n, 1), LABEL)
        for layer, cache in enumerate(self.rows):
            if cache is not None:
                self._update(layer, blank, blank)
        for cache in self.arrays:
            if cache is not None:
                cache.cache = [np.zeros((self.b, 1), LABEL) for _ in cache.cache]

    def done(self) -> None:
        """Put the states back into their slots, and advance each cache of states."""
        for layer, cache in enumerate(self.arrays):
            if cache is None:
                continue
            reached = [self.states.get((layer, row)) for row in range(self.b)]
            if all(state is not None for state in reached):
                cache.cache = pack_states(reached, len(cache.cache))     # type: ignore[arg-type]
            cache.buffer = self._buffer(self.spec.layers[layer], cache)
            if cache.rules.arrays_advance():
                cache.advance(self.n)

    def _buffer(self, layer: Layer, cache: Any) -> Buffer:
        """Return the memory behind the slots of a layer. With lengths the kept inputs are gathered, that is copied."""
        assert layer.recurrence is not None
        kept = layer.recurrence.taps - 1
        view = cache.rules.arrays_keep(layer.kind == "G") and cache.lengths is None
        return Buffer(self.b, kept + self.n, kept) if view and kept else Buffer(self.b, 1, 1)


def _pieces(row: int, real: Array, stop: int) -> list[RowPiece]:
    """Return the pieces of a row. ``real``: bool, False for padding. The convolution keeps no token from ``stop``
    on."""
    n, at = len(real), np.flatnonzero(real)
    begin, end = (int(at[0]), int(at[-1]) + 1) if len(at) else (0, 0)
    kept = min(max(stop, 0), n)
    cuts = sorted({0, begin, end, kept, n})
    return [RowPiece(row, a, b, begin <= a < end, begin <= a < end and b <= kept) for a, b in pairwise(cuts)]


def _zeroed(like: LayerState) -> LayerState:
    """Return the initial state, in the shape of ``like``."""
    conv_x, h = (None if part is None else np.zeros_like(part) for part in (like.conv_x, like.h))
    return LayerState(np.zeros_like(like.conv), 0, conv_x, h)
