"""Caches of models that choose or compress rows, and the groups that the server makes of compressed ones.

Every layer of DeepSeek V4 has a cache of a window; a layer with compressed rows has a cache of these rows and one of
the state of its compressor, which reads a window; a layer with an index has both for its index, too. Layers that choose
rows keep them all, as attention does. Source: vLLM vllm/models/deepseek_v4/attention.py, compressor.py,
vllm/v1/attention/backends/mla/sparse_swa.py, indexer.py, vllm/models/minimax_m3/common,
vllm/v1/core/kv_cache_planning.py _get_packed_kv_cache_groups, _approximate_gcd (0.30.0 to 0.33.0).
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import real_model
from cachesim.model.layer_kinds import KINDS

UNITS: Mapping[str, int] = {"I": 64, "B": 128, "D": 256}
"""Kind of layers -> tokens of a block of their kernels."""
CHOOSING = ("deepseek_v32", "glm_moe_dsa")      # architectures of layers that choose rows, as far as they were read
WINDOW_BLOCK = 64                               # tokens of a block of the window
STATE_BLOCKS: Mapping[int, int] = {4: 4, 128: 8}
"""Tokens that a compressed row stands for -> tokens of a block of the compressor's state."""
OVERLAPPED = 4                                  # rows for so many tokens overlap, and have an index
ROW = 584               # bytes of a row of fp8 with its scales
ROW_PART = 576          # alignment of a page [bytes]
SCALE_OF = 128          # numbers of an index row that share a scale
F32 = 4


class LayerCache(NamedTuple):
    """A cache of a layer."""

    letter: str         # A = all tokens, W = a window
    window: int         # [tokens], 0 = all
    block: int          # tokens of a block
    page: int           # bytes of a block
    is_draft: bool = False


class PackedGroup(NamedTuple):
    """A group of caches with one block table."""

    caches: tuple[LayerCache, ...]

    @property
    def word(self) -> str:
        """The group as ``kv_groups`` states it."""
        first = self.caches[0]
        return f"{first.letter}{first.window or ''}/{first.block}" + "e" * any(cache.is_draft for cache in self.caches)

    @property
    def bytes(self) -> int:
        """Bytes of a block in all layers."""
        return sum(cache.page for cache in self.caches)


def served_model(word: str) -> RealModel:
    """Return the layers of a real model. Raise BadInput for layers whose caches were not read in the server."""
    model = real_model(word)
    for layer in model.layers:
        is_read = layer.kind in UNITS and (layer.kind != "I" or model.arch in CHOOSING)
        if layer.kind and KINDS[layer.kind].newest and not is_read:
            raise BadInput(f"vllm: model {quoted(word)} is not simulated: its layers have {KINDS[layer.kind].words}")
    return model


def kernel_block(model: RealModel, block: int, default: int) -> int:
    """Return the tokens of a block: as given, or the one of the kernels in place of the ``default``. Raise BadInput for
    a size that the kernels do not take."""
    unit = max((UNITS.get(layer.kind, 0) for layer in model.layers), default=0)
    if unit and block == default:
        return unit
    if unit and block % unit:
        raise BadInput(f"block_size {block} does not fit the kernels of this model", hint=f"a multiple of {unit}")
    return block


def layer_caches(model: RealModel, block: int, drafted: int) -> list[LayerCache]:
    """Return the caches of a model with compressed rows, in the order in which the server registers them. ``drafted``:
    layers of the MTP head."""
    found = list[LayerCache]()
    window = LayerCache("W", model.window, WINDOW_BLOCK, _padded(WINDOW_BLOCK * ROW))
    for layer in model.layers:
        if layer.ratio == OVERLAPPED:
            entries = block // layer.ratio
            index = layer.index_key + layer.index_key // SCALE_OF * F32
            found.append(LayerCache("A", 0, block, _padded(entries * index)))
            found.append(_compressor_state(layer.ratio, layer.index_key))
        found.append(window)
        if layer.ratio:
            found.append(LayerCache("A", 0, block, _padded(block // layer.ratio * ROW)))
            found.append(_compressor_state(layer.ratio, layer.key))
    return [*found, *[window._replace(is_draft=True)] * drafted]


def _compressor_state(ratio: int, width: int) -> LayerCache:
    """Return the state of a compressor of rows of so many numbers: sums and scores, twice where rows overlap."""
    parts = 2 if ratio == OVERLAPPED else 1
    block = STATE_BLOCKS[ratio]
    return LayerCache("W", parts * ratio, block, _padded(block * 2 * parts * width * F32))


def _padded(size: int) -> int:
    return -(-size // ROW_PART) * ROW_PART


def packed_groups(caches: Sequence[LayerCache]) -> list[PackedGroup]:
    """Return the groups of caches with pages of different sizes. Caches of the same window and block make a bucket; a
    bucket in which every size of page is equally frequent is split, so that groups have about as many layers."""
    buckets: dict[tuple[str, int, int], list[LayerCache]] = {}
    for cache in caches:
        buckets.setdefault((cache.letter, cache.window, cache.block), []).append(cache)
    sizes = [_by_page(bucket) for bucket in buckets.values()]
    balanced = [len({len(same) for same in by_page}) == 1 for by_page in sizes]
    repeats = [len(by_page[0]) for by_page, is_balanced in zip(sizes, balanced, strict=True) if is_balanced]
    mixed = [len(by_page[0]) for by_page, is_balanced in zip(sizes, balanced, strict=True)
             if is_balanced and len(by_page) > 1]  # fmt: skip
    most = repeats_of_group(repeats, max(mixed)) if mixed else 0
    groups = list[PackedGroup]()
    for bucket, by_page, is_balanced in zip(buckets.values(), sizes, balanced, strict=True):
        number = -(-len(by_page[0]) // most) if is_balanced and most else 1
        patterns = [*zip(*by_page, strict=True)] if number > 1 else [tuple(bucket)]
        groups += [PackedGroup(tuple(cache for pattern in patterns[i::number] for cache in pattern))
                   for i in range(number)]  # fmt: skip
    return groups


def _by_page(bucket: Sequence[LayerCache]) -> list[list[LayerCache]]:
    """Return the caches by the size of their pages, in the order of their first caches."""
    found: dict[int, list[LayerCache]] = {}
    for cache in bucket:
        found.setdefault(cache.page, []).append(cache)
    return list(found.values())


def repeats_of_group(repeats: Sequence[int], least: int) -> int:
    """Return the layers of a group, at least so many, with which the fewest places of all groups stay empty; of equal
    ones the largest. ``repeats``: layers of each kind."""
    return min(range(least, max(repeats) + 1), key=lambda size: (sum(-count % size for count in repeats), -size))
