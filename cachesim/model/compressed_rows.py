"""Window and compressed rows (D, step form): a further row for every ``ratio`` tokens, made from their inputs.

The compressor keeps its last inputs in a ring. When a token completes a block, it makes the block's row: from the
inputs of the block, and with ratio 4 also from those of the block before. A token reads the rows of its window and the
compressed rows of all complete blocks up to itself, by their numbers; with ratio 4 the best ``count`` of them. It does
not matter to the memory what a row with a visible number contains.
Source: llama.cpp src/models/deepseek4.cpp, src/llama-kv-cache-dsv4.cpp (b11549).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from cachesim.model import grid
from cachesim.model.attention import SCORE
from cachesim.model.chosen_rows import Seen, best, index_scores
from cachesim.model.grid import Digests, Positions, Values, frozen, project, require
from cachesim.model.hash_mixing import LayerKeys, mix, place
from cachesim.model.rope import Rotation, rotate, turns
from cachesim.model.store import KVRows, LayerState
from cachesim.model.weights import HEAD, KV_HEADS, AttentionWeights, D, WeightDraw, draw_attention, project_bound

OVERLAPPED = 4                # ratio with which a row is also made from the block before, and chosen by an index
QUERIES = 2
K_HEADS = KV_HEADS + 1        # K heads of a compressed row, and its index key
CHANNELS = (K_HEADS + KV_HEADS) * HEAD


class CompressedStore(Protocol):
    """What a store of a model with compressed rows also has."""

    def put_compressed(self, layer: int, run: int, first: int, rows: KVRows) -> None:
        """Write compressed rows under consecutive numbers from ``first`` on."""

    def get_compressed(self, layer: int, run: int, n: int) -> KVRows:
        """Return the first ``n`` compressed rows of the run's sequence, whatever they contain."""


class CompressingWeights(NamedTuple):
    """Attention and its compressor: q k v as in attention; ``compress``: 3 keys and 2 values of 16; ``lookup``: 2
    queries of 16."""

    into: Values              # (d, 128)
    out: Values               # (64, d)
    compress: Values          # (d, 80)
    lookup: Values            # (d, 32)


def draw_compressing(draw: WeightDraw) -> CompressingWeights:
    """Draw the weights of an attention part with a compressor."""
    plain: AttentionWeights = draw_attention(draw)
    compress, index = draw.matrix(D, CHANNELS), draw.matrix(D, QUERIES * HEAD)
    most = max(project_bound(compress), project_bound(index))
    require((np.sqrt(HEAD) * most / grid.ROPE_UNIT) ** 2, "score of a compressed row")
    return CompressingWeights(plain.into, plain.out, compress, index)


def ring_length(ratio: int) -> int:
    """Return the number of inputs that a compressor keeps."""
    return 2 * ratio if ratio == OVERLAPPED else ratio


def inputs_after(state: LayerState | None, digest: Digests, ratio: int) -> Digests:
    """Return the digests of the kept inputs and of the new ones, (ring + t,)."""
    past = np.zeros(ring_length(ratio), np.uint64) if state is None else state.conv
    return np.concatenate((past, digest))


def numbers_after(state: LayerState | None, x: Values, ratio: int) -> Values:
    """Return the kept inputs and the new ones, (ring + t, 80)."""
    past = np.zeros((ring_length(ratio), CHANNELS)) if state is None or state.conv_x is None else state.conv_x
    return np.concatenate((past, x))


def ring_after(digests: Digests, numbers: Values | None, ratio: int) -> LayerState:
    """Return the state whose ring holds the last of these inputs."""
    kept = ring_length(ratio)
    conv_x = None if numbers is None else frozen(numbers[len(numbers) - kept :].copy())
    h = None if numbers is None else frozen(np.zeros((0, 0, 0)))
    return LayerState(frozen(digests[len(digests) - kept :].copy()), 0, conv_x, h)


class NewBlocks(NamedTuple):
    """Blocks that a run completes: the number of the first, and where each begins among the inputs (ring + t)."""

    first: int
    starts: Positions


def new_blocks(pos0: int, n: int, ratio: int) -> NewBlocks:
    """Return the blocks that n tokens from position ``pos0`` on complete."""
    first = pos0 // ratio
    ends = np.arange(first, (pos0 + n) // ratio) * ratio + ratio                         # positions after each block
    return NewBlocks(first, ends - pos0 + ring_length(ratio) - ratio)


def block_digests(inputs: Digests, blocks: NewBlocks, keys: LayerKeys, ratio: int) -> Digests:
    """Return the digests of the rows of completed blocks, (m,)."""
    reach = ring_length(ratio)
    at = blocks.starts[:, None] + np.arange(ratio - reach, ratio)                        # (m, reach)
    mixed = mix(inputs ^ keys.row)[at] if len(at) else np.zeros((0, reach), np.uint64)
    odd = 2 * np.arange(reach, dtype=np.uint64) + np.uint64(1)
    rows: Digests = mix((mixed * odd).sum(axis=1, dtype=np.uint64))
    return rows * place(blocks.first + np.arange(len(rows)))


def block_rows(inputs: Values, blocks: NewBlocks, ratio: int) -> tuple[Values, Values]:
    """Return K with the index key (m, 3, 16) and V (m, 2, 16) of completed blocks: weighted means of their inputs."""
    m, own = len(blocks.starts), blocks.starts[:, None] + np.arange(ratio)
    total = inputs[own].sum(axis=1) if m else np.zeros((0, CHANNELS))
    if ratio == OVERLAPPED:
        before = inputs[own - ratio].sum(axis=1) if m else total
        mean = np.rint((3.0 * total + before) / 16.0)
    else:
        mean = np.rint(total / ratio)
    parts = mean.reshape(m, K_HEADS + KV_HEADS, HEAD)
    turn = turns((blocks.first + np.arange(m)) * ratio)
    return rotate(parts[:, :K_HEADS], turn, grid.UNIT / grid.ROPE_UNIT), parts[:, K_HEADS:]


def visible_blocks(asked: Positions, ratio: int) -> Positions:
    """Return the number of compressed rows that each token sees, (t,)."""
    return (asked + 1) // ratio


def compressed_sums(digest: Digests, visible: Positions) -> Digests:
    """Return the sum of the digests of the compressed rows that each token sees, (t,)."""
    total = np.zeros(len(digest) + 1, np.uint64)
    np.add.accumulate(digest, out=total[1:])
    return total[visible]


def index_queries(u: Values, weights: CompressingWeights, turn: Rotation) -> Values:
    """Return the index queries (t, 2, 16) of new tokens, in steps of the softmax table."""
    y = project(u, weights.lookup).reshape(len(u), QUERIES, HEAD)
    steps: Values = rotate(y, turn, grid.UNIT / grid.ROPE_UNIT) * SCORE
    return steps


def best_compressed(q: Values, k: Values, visible: Positions, ratio: int, count: int) -> Seen:
    """Return the compressed rows that each token reads, (t, m)."""
    shown = np.arange(len(k)) < visible[:, None]
    if ratio != OVERLAPPED or not count:
        return shown
    return best(index_scores(q, k[:, KV_HEADS]), shown, count)
