"""Number of groups of a model's layers: layers that store alike share block tables, in groups of equal size.

Source: vLLM vllm/v1/core/kv_cache_planning.py get_kv_cache_groups, _get_kv_cache_groups_uniform_page_size (0.33.0).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.size_formulas import LayerSize

FEW_MORE = 1.5              # groups are filled up if the largest kind has fewer layers than this times the smallest


class LayerGroups(NamedTuple):
    """Number of groups with full attention, with windows and with states, and the most layers of a group."""

    full: int
    window: int
    state: int
    layers: int


def group_size(counts: Sequence[int]) -> int:
    """Return the layers of a group. ``counts``: layers of each kind, at least one of them not 0."""
    present = [count for count in counts if count]
    return max(present) if max(present) < min(present) * FEW_MORE else min(present)


def groups_of(model: RealModel, drafted: int = 0) -> LayerGroups:
    """Return the groups of a model. ``drafted``: layers of the drafter, which store as full attention does. Layers of
    a kind whose rows or states have different sizes share no group with each other if other kinds exist."""
    full_layers = model.full
    full_layers += [full_layers[-1] if full_layers else LayerSize("A")] * drafted
    kinds = (_alike(full_layers), _alike(model.windows), _alike(model.states))
    if not any(kinds):
        return LayerGroups(0, 0, 0, 0)
    if sum(map(bool, kinds)) == 1:                          # all layers need the same number of blocks
        full, window, state = (int(bool(kind)) for kind in kinds)
        return LayerGroups(full, window, state, sum(map(sum, kinds)))
    size = group_size([count for kind in kinds for count in kind])
    full, window, state = (sum(-(-count // size) for count in kind) for kind in kinds)
    return LayerGroups(full, window, state, size)


def _alike(layers: Sequence[LayerSize]) -> list[int]:
    """Return the number of layers of each size."""
    sizes = [layer._replace(kind="") for layer in layers]
    return [sizes.count(size) for size in dict.fromkeys(sizes)]
