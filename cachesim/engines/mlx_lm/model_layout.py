"""Caches of a model, layer by layer, and their declared sizes.

A, W   K/V rows: KVCache, and RotatingKVCache of the window's size
K      K/V rows: ChunkedKVCache, which cannot be merged into a batch
G, S   ArraysCache of two slots: inputs of the convolution, recurrent matrix
C      ArraysCache of a single slot, without a matrix
H      CacheList of both kinds

Source: mlx-lm mlx_lm/models/{llama,llama4,gemma3_text,qwen3_next,mamba2,lfm2,falcon_h1}.py make_cache (d78bf58e).
Byte counts are those of our own layers in float32, or those declared by the ``ModelKind``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterable, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.mlx_lm.caches import (
    ArraysCache,
    CacheList,
    CacheRules,
    ChunkedKVCache,
    KVCache,
    RotatingKVCache,
)
from cachesim.engines.mlx_lm.caches.arrays_cache import Buffer
from cachesim.engines.shared.size_formulas import DeclaredSizes, split_sizes
from cachesim.model import Layer, Spec, parse

FLOAT = 4
ROW = 2 * 2 * 16 * FLOAT                                # a K row and a V row: 2 heads of 16
NAMES = {"llama": "AAAA", "qwen3_next": "GGGA", "mamba2": "SSSS", "lfm2": "CCA", "gemma3": "W8 W8 A", "falcon_h1": "HH"}
"""Short names for models of the families that a test compares with the real classes."""


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Bytes of a token's rows, and of a batch row in each slot of a state."""

    row: int
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A model as the server sees it; ``weights`` has an entry for each layer."""

    name: str
    spec: Spec
    weights: tuple[TokenBytes, ...]


def model_kind(name: str) -> ModelKind:
    """Parse a short name or a notation of layers, with optional declared sizes. Raise BadInput."""
    layers, sizes = split_sizes(name)
    spec = parse(NAMES.get(layers, layers))
    if spec.mtp:
        raise BadInput(f"model {name}: this server has no MTP heads", hint="leave out +M")
    return ModelKind(name, spec, tuple(_weight(layer, sizes) for layer in spec.layers))


def _weight(layer: Layer, sizes: DeclaredSizes | None = None) -> TokenBytes:
    """Return the weight of a layer. A declared state is counted in its last slot."""
    slots = tuple(FLOAT * n for n in layer.recurrence.state_numbers) if layer.recurrence else ()
    if sizes is not None:
        row = sizes.window_row if layer.window else sizes.row
        return TokenBytes(row if layer.part else 0, slots and (*[0] * (len(slots) - 1), sizes.state))
    return TokenBytes(ROW if layer.part else 0, slots)


def model_weights(kind: ModelKind, draft: tuple[Any, Spec] | None) -> tuple[TokenBytes, ...]:
    """Return the weights of all layers: those of the model, then those of the draft model."""
    return kind.weights if draft is None else (*kind.weights, *(_weight(layer) for layer in draft[1].layers))


def make_caches(spec: Spec, rules: CacheRules, rings: bool = True) -> list[Any]:
    """Create the caches of a conversation for all layers (model.make_cache). ``rings`` False: a layer with a window
    gets a KVCache."""
    return [_cache(layer, rules, rings) for layer in spec.layers]


def merge_facts(spec: Spec, rules: CacheRules) -> tuple[list[str], bool]:
    """Return the classes of the caches of all layers, and whether each class can be merged into a batch."""
    caches = make_caches(spec, rules)
    return [type(one).__name__ for one in caches], all(hasattr(part, "merge") for one in caches for part in _parts(one))


def _cache(layer: Layer, rules: CacheRules, rings: bool) -> Any:
    parts: list[Any] = []
    if layer.recurrence:
        parts.append(ArraysCache(len(layer.recurrence.state_numbers), rules=rules))
    if layer.part:
        parts.append(_rows(layer, rules, rings))
    return parts[0] if len(parts) == 1 else CacheList(*parts, rules=rules)


def _rows(layer: Layer, rules: CacheRules, rings: bool) -> Any:
    if layer.chunked:
        return ChunkedKVCache(layer.window, rules=rules)
    return RotatingKVCache(layer.window, rules=rules) if layer.window and rings else KVCache(rules=rules)


def rows_of(cache: Any) -> Any | None:
    """Return the part of a layer's cache that holds K/V rows, or None."""
    return next((part for part in _parts(cache) if type(part) is not ArraysCache), None)


def states_of(cache: Any) -> ArraysCache | None:
    """Return the part of a layer's cache that holds a recurrent state, or None."""
    return next((part for part in _parts(cache) if type(part) is ArraysCache), None)


def _parts(cache: Any) -> Sequence[Any]:
    return cache.caches if type(cache) is CacheList else (cache,)


def alive(entries: Iterable[Sequence[Any]], weights: Sequence[TokenBytes]) -> int:
    """Return the memory that these conversations keep alive [bytes]: as ``declared``, but views count with all of the
    memory behind them, once."""
    total, seen = 0, set[int]()
    for caches in entries:
        for cache, weight in zip(caches, weights, strict=True):
            for part in _parts(cache):
                buffer: Buffer | None = part.buffer if type(part) is ArraysCache else None
                if buffer is None:
                    total += _part_bytes(part, weight)
                elif id(buffer) not in seen:
                    seen.add(id(buffer))
                    inputs, *others = weight.slots
                    total += buffer.rows * (inputs * buffer.columns // buffer.kept + sum(others))
    return total


def declared(caches: Sequence[Any], weights: Sequence[TokenBytes]) -> int:
    """Return the size of these caches in the declared model [bytes]: allocated columns, and rows of states."""
    total = 0
    for cache, weight in zip(caches, weights, strict=True):
        total += sum(_part_bytes(part, weight) for part in _parts(cache))
    return total


def _part_bytes(part: Any, weight: TokenBytes) -> int:
    if type(part) is ArraysCache:
        slots = zip(part.cache, weight.slots, strict=True)
        return sum(len(slot) * size for slot, size in slots if slot is not None)
    return 0 if part.keys is None else int(part.keys.shape[0] * part.keys.shape[2] * weight.row)
