"""Pools of a model that compresses rows (DeepSeek V4): slots of rows and of windows in a given memory.

A slot of rows has the rows that compressed layers keep for a token, with their index. A slot of windows has a row of
every layer, and the states of the compressors of ratio 4, which lie in a ring for each page. States of ratio 128 lie in
a ring for each request, beside the slots. Source: SGLang model_executor/pool_configurator.py DSV4PoolConfigurator,
mem_cache/deepseek_v4_memory_pool.py, arg_groups/deepseek_v4_hook.py apply_deepseek_v4_defaults, on devices of NVIDIA
with FlashMLA (0.5.23).
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.errors import NotInBuild
from cachesim.engines.sglang.flags import UNSET_TOKENS, Options
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import F32

REQUESTS = 256              # requests that run at a time, if the flags do not state their number
ROW = 584                   # bytes of a row with its scales
SCALE_OF = 128              # numbers of an index row that share a scale
SHORT, LONG = 4, 128        # tokens for which a compressed row stands
SHORT_RING, LONG_RING = 8, 128      # inputs of a compressor that a page or a request keeps; with drafts twice as many


class CompressedForm(NamedTuple):
    """How a release stores compressed rows. ``unit``: a page of rows has a multiple of so many bytes; ``per_ring``:
    tokens of windows that share a ring of states."""

    unit: int
    per_ring: int


PADDED = CompressedForm(unit=576, per_ring=256)
"""Source: SGLang model_executor/pool_configurator.py DSV4PoolConfigurator, 1378 and 1395 (0.5.23), 1240 (0.5.21)."""
PLAIN = CompressedForm(unit=1, per_ring=128)
"""Source: SGLang model_executor/pool_configurator.py DSV4PoolConfigurator, 1106 (0.5.20)."""


class CompressedSlots(NamedTuple):
    """Slots of rows and of windows."""

    rows: int
    windows: int


def compressed_slots(form: CompressedForm, model: RealModel, opts: Options, room: int) -> CompressedSlots:
    """Return the slots that so much memory [bytes] of a device holds. Devices do not share these rows. Raise NotInBuild
    for layers that compress by another ratio, and for a window pool that holds no request."""
    short = [layer for layer in model.compressed if layer.ratio == SHORT]
    long = [layer for layer in model.compressed if layer.ratio == LONG]
    if len(short) + len(long) != len(model.compressed):
        raise NotInBuild("sglang: pools of layers that compress rows by another ratio than 4 and 128 are not derived")
    rings, page = 2 if opts.speculative_algorithm else 1, opts.page_size
    head = model.layers[0].key
    index = short[0].index_key if short else 0
    window = _row(form, page) * len(model.layers)
    window += SHORT_RING * rings / form.per_ring * (4 * head + 4 * index) * F32 * len(short)
    token = opts.swa_full_tokens_ratio * window
    token += (_row(form, page // SHORT) + _index_row(index)) / SHORT * len(short)
    token += _row(form, page // LONG) / LONG * len(long)
    if opts.speculative_algorithm:
        token *= (len(model.layers) + 1) / len(model.layers)
    requests = opts.max_running_requests or REQUESTS
    rest = max(0, room - _request_bytes(requests, LONG_RING * rings, head) * len(long))
    rows = int(rest / token) // page * page
    if opts.max_total_tokens != UNSET_TOKENS:
        rows = min(rows, opts.max_total_tokens // page * page)
    windows = int(rows * opts.swa_full_tokens_ratio) // page * page
    if windows <= model.window + page:
        raise NotInBuild(f"the server does not start: {windows} slots of windows hold no request",
                         hint="pool_gib, --swa-full-tokens-ratio")  # fmt: skip
    return CompressedSlots(rows, windows)


def _row(form: CompressedForm, rows: int) -> float:
    """Return the bytes of a row with its share of the padding of a page of so many rows."""
    return -(-rows * ROW // form.unit) * form.unit / rows


def _index_row(index: int) -> int:
    return index + index // SCALE_OF * F32


def _request_bytes(requests: int, ring: int, head: int) -> int:
    """Return the bytes of the states that a layer of ratio 128 keeps for all requests and one more."""
    rows = -(-((requests + 1) * ring + ring + 1) // LONG) * LONG
    return rows * 2 * head * F32
