"""Micro-batches of llama_decode: division of a batch, cells that attention reads, zeroing of recurrent rows.

pad        cells of a block: 256 with flash attention, 32 without
n_kv       cells that attention reads: 0 .. n_kv-1
n_swa      width of the windows, in positions

Source: ik_llama.cpp src/llama.cpp llama_decode_internal, src/llama-delta-net.cpp (8337e4cd3).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from cachesim.engines.ik_llama.source_files import CONTEXT, LLAMA, ik_llama
from cachesim.engines.rule import Decision, Role, rule

DELTA_NET = "src/llama-delta-net.cpp"
FLASH_ATTENTION = "ggml/src/iqk/iqk_flash_attn.cpp"
FAST_HEADS = {64, 96, 128, 192, 256, 320, 512, 576}
"""Widths of heads that the fast flash attention of the CPU takes."""


@rule("IK-UBATCH-SPLIT", Role.MEMORY, ik_llama(LLAMA, "llama_decode_internal", "8337e4cd3"))
def split_repeated(hybrid: bool, seqs: Sequence[int]) -> Decision:
    """Return how many tokens of the window form the next micro-batch: 1 if the model is hybrid, the window mixes
    sequences and some sequence occurs twice in it; otherwise all."""
    several, n = len(set(seqs)), len(seqs)
    return Decision(1 if hybrid and 1 < several < n else n, {"hybrid": hybrid, "tokens": n, "sequences": several})


@rule("IK-STATE-ZERO", Role.MEMORY, ik_llama(DELTA_NET, "build_layer_attn_linear", "8337e4cd3"))
def zero_at_start(pos: int, sequences: int) -> Decision:
    """True if the recurrent row of a sequence is zeroed: if its first token in the micro-batch has position 0,
    regardless of the number of sequences."""
    return Decision(pos == 0, {"pos": pos, "sequences": sequences})


@rule("IK-KV-SEEN.BLOCK-ENDS", Role.MEMORY, ik_llama(LLAMA, "llama_kv_cache_cell_max", "8337e4cd3"),
      since="#1430 (edf54621d)")
def seen_by_block_ends(pos: np.ndarray, size: int, pad: int) -> Decision:
    """Return n_kv. The search for the last used cell looks only at the last cell of each block, from the end: used
    cells are missed if the last cells of their block and of the block before it are free. ``pos``: (n,) positions of
    the first n cells, -1 = free; the cells from n on are free."""
    ends = np.flatnonzero(pos[pad - 1 :: pad] >= 0)
    top = (int(ends[-1]) + 1) * pad if len(ends) else 0
    seen = top + pad if top and bool((pos[top : top + pad] >= 0).any()) else top
    n_kv = min(size, max(pad, seen))
    return Decision(n_kv, {"n_kv": n_kv, "size": size, "pad": pad})


# [Gone in ik_llama@1673]
@rule("IK-KV-SEEN.EXACT", Role.MEMORY, ik_llama(LLAMA, "llama_kv_cache_cell_max", "433531dda"), until="#1430")
def seen_exact(pos: np.ndarray, size: int, pad: int) -> Decision:
    """Return n_kv: the last used cell plus 1, rounded up to a block."""
    used = np.flatnonzero(pos >= 0)
    last = int(used[-1]) + 1 if len(used) else 0
    n_kv = min(size, max(pad, -(-last // pad) * pad))
    return Decision(n_kv, {"n_kv": n_kv, "size": size, "pad": pad})


@rule("IK-KV-WINDOW.LAST-BLOCKS", Role.MEMORY, ik_llama(FLASH_ATTENTION, "iqk_flash_attn_noalibi", "8337e4cd3"),
      since="#757 (144d45671)")
def window_in_last_blocks(n_kv: int, tokens: int, n_swa: int, flash_attn: bool, head: int) -> Decision:
    """Return the first cell that window layers read. With flash attention and a head width that the fast kernel
    supports, they read only the last blocks of 256 before ``n_kv``: as many as the windows of the micro-batch's
    ``tokens`` would fill if their cells were the last cells. Several slots share the cells, and n_kv is rounded up, so
    windows can begin before."""
    blocks = -(-(max(256, tokens) + n_swa) // 256)
    low = max(0, n_kv - 256 * blocks) if flash_attn and head in FAST_HEADS else 0
    return Decision(low, {"n_kv": n_kv, "tokens": tokens, "window": n_swa})


@rule("IK-KV-WINDOW.ALL", Role.MEMORY, ik_llama(FLASH_ATTENTION, "iqk_flash_attn_noalibi", "4a6a6f17e"), until="#757")
def window_in_all_cells(n_kv: int, tokens: int, n_swa: int, flash_attn: bool, head: int) -> Decision:
    """Return 0: window layers read every cell; only their mask limits them."""
    return Decision(0, {"n_kv": n_kv, "tokens": tokens, "window": n_swa})


@rule("IK-KV-BLIND", Role.MEMORY, ik_llama(LLAMA, "llama_set_inputs", "8337e4cd3"))
def blind_is_not_a_number(tokens: int, flash_attn: bool) -> Decision:
    """True if the row of a token without a visible cell is NaN, and with it all results of a micro-batch that
    reads its cell, masked or not, until the cell is written again: without flash attention. With flash attention such a
    token gets a wrong number, and other tokens are not affected."""
    return Decision(not flash_attn, {"tokens": tokens, "flash_attn": flash_attn})


@rule("IK-DECODE-RETRY", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"))
def next_attempt(n_batch: int) -> Decision:
    """Return n_batch of the next attempt after no free cells were found: half; 0 = the requests fail."""
    return Decision(n_batch // 2, {"n_batch": n_batch})


@rule("IK-DECODE-AGAIN.VIEW", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"))
def again_from_view(evaluated: int) -> Decision:
    """Return 0: the next attempt begins where the failed attempt began, although its first micro-batches were
    evaluated."""
    return Decision(0, {"evaluated": evaluated})


@rule("IK-GIVE-UP.KEEPS", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"))
def give_up_keeps(held: int) -> Decision:
    """Return the length of the slot's token list after a batch that found no free cells: all, though some tokens were
    never evaluated."""
    return Decision(held, {"held": held})


class ComputeGraph(NamedTuple):
    """A compute graph: number of cells that attention reads, tokens and outputs of its micro-batch, the sequence of
    each run, whether the recurrent row of each run is zeroed, and whether rows are kept after each token."""

    n_kv: int
    tokens: int
    outputs: int
    rows: tuple[int, ...]
    zeroed: tuple[bool, ...]
    per_step: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The numbers of the older comparison. (It does not count the runs; here a graph is not used again for another
        number of them.)"""
        return self.n_kv, self.tokens, self.outputs, len(self.rows), self.per_step


def _graphs(last: ComputeGraph | None, now: ComputeGraph) -> dict[str, object]:
    return {"rows": now.rows, "last": () if last is None else last.rows, "zeroes": () if last is None else last.zeroed}


@rule("IK-GRAPH.SEQUENCES", Role.MEMORY, ik_llama(LLAMA, "llama_ubatch_seq_fingerprint", "8337e4cd3"), since="#2260")
def graph_by_sequences(last: ComputeGraph | None, now: ComputeGraph, first: int) -> Decision:
    """True if the graph of the last micro-batch is used again: if its numbers are equal, and so are the
    sequences and which of them begin at position 0. Recurrent rows are then those of the micro-batch."""
    return Decision(last == now and first > 0, _graphs(last, now))


# [Gone in ik_llama@main]
@rule("IK-GRAPH.SHAPE", Role.MEMORY, ik_llama(LLAMA, "llama_context::can_reuse_graph", "d2da6da05"),
      since="#1713 (2dd381808)", until="#2260 (4a4a6d3c1)")
def graph_by_shape(last: ComputeGraph | None, now: ComputeGraph, first: int) -> Decision:
    """True if the graph of the last micro-batch is used again: if the numbers of cells, tokens and outputs are
    equal and the first cell is not cell 0. Its recurrent rows, and whether they are zeroed, are part of the graph: the
    micro-batch reads and writes the rows of the last micro-batch, and keeps an old state at position 0."""
    same = last is not None and last.shape == now.shape and first > 0
    return Decision(same, _graphs(last, now))


# [Gone in ik_llama@1743]
@rule("IK-GRAPH.ONE-TOKEN", Role.MEMORY, ik_llama(LLAMA, "llama_context::can_reuse_graph", "67e634622"),
      since="#947 (6b9d1bf4b)", until="#1713 (2dd381808)")
def graph_of_one_token(last: ComputeGraph | None, now: ComputeGraph, first: int) -> Decision:
    """True if the graph of the last micro-batch is used again: as IK-GRAPH.SHAPE, but only for a micro-batch of
    one token."""
    same = last is not None and last.shape == now.shape and first > 0 and now.tokens == 1
    return Decision(same, _graphs(last, now))


# [Gone in ik_llama@954]
@rule("IK-GRAPH.NEW", Role.MEMORY, ik_llama(LLAMA, "llama_decode_internal", "6b9d1bf4b^"), until="#947 (6b9d1bf4b)")
def graph_new(last: ComputeGraph | None, now: ComputeGraph, first: int) -> Decision:
    """Return False: every micro-batch builds its graph."""
    return Decision(False, _graphs(last, now))


@rule("IK-ABORT.CUT", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "8337e4cd3"), since="#1787 (cdc288bc9)")
def abort_cuts(held: int, pos_max: int) -> Decision:
    """Return the length of the slot's token list after a client disconnected and stopped the evaluation: the tokens
    that were evaluated."""
    return Decision(min(held, pos_max + 1), {"held": held, "pos_max": pos_max})


# [Gone in ik_llama@1889-base]
@rule("IK-ABORT.KEEPS", Role.FAIL, ik_llama(CONTEXT, "process_batch_tokens", "cdc288bc9^"),
      since="#1134 (1a461525d)", until="#1787")
def abort_keeps(held: int, pos_max: int) -> Decision:
    """Return the length of the slot's token list after a client disconnected and stopped the evaluation: all tokens of
    the batch, though some were never evaluated."""
    return Decision(held, {"held": held, "pos_max": pos_max})


# [Gone in ik_llama@1134]
@rule("IK-ABORT.NEVER", Role.FAIL, ik_llama("examples/server/server.cpp", "", "1a461525d^"), until="#1134")
def abort_never(held: int, pos_max: int) -> Decision:
    """Return -1: a client that disconnects does not stop the evaluation of its prompt."""
    return Decision(-1, {"held": held, "pos_max": pos_max})
