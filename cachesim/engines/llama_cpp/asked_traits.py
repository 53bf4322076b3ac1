"""The traits of a build, asked of its rules when its memory first needs them.

Most runs need few of them. A rule that is not asked cannot change a run, so that rule sets that differ in it only share
a run (``judging.shared_runs``).
"""

from __future__ import annotations

from functools import cached_property
from typing import Callable

from cachesim.engines.llama_cpp.memory.index_memory import LATENT
from cachesim.engines.llama_cpp.memory.model_layout import ModelKind
from cachesim.engines.llama_cpp.memory.newest_layout import QUANTIZED
from cachesim.engines.llama_cpp.memory.ubatch import BatchSplit, BuildTraits
from cachesim.engines.llama_cpp.profiles import Rules
from cachesim.engines.rule import Decision


class AskedTraits(BuildTraits):
    """Traits of the build of ``rules`` for a model. ``plane``, ``saved_plane``: see ``BuildTraits``."""

    def __init__(
        self, rules: Rules, kind: ModelKind, plane: Callable[[int, int, int, int], int],
        saved_plane: Callable[[int], int],
    ) -> None:
        # The class is frozen, and its fields stay unset until they are asked for.
        vars(self).update(rules=rules, kind=kind, plane=plane, saved_plane=saved_plane, decisions=[])

    rules: Rules
    kind: ModelKind
    decisions: list[Decision]           # those that a server records when it starts, as far as they were asked for

    def split(self, planes: int, attention: bool, unified: bool) -> BatchSplit:
        """Return how batches are split."""
        found: BatchSplit = self.rules.rs_split(planes, attention, unified).value
        return found

    @cached_property
    def no_cells_line(self) -> str:
        return self.rules.no_cells_line

    @cached_property
    def together(self) -> bool:
        return self._recorded(self.rules.kv_read())

    @cached_property
    def purge_stays(self) -> bool:
        return self._recorded(self.rules.kv_undo())

    @cached_property
    def fail_undoes(self) -> bool:
        return self._recorded(self.rules.kv_fail())

    @cached_property
    def copy_waits(self) -> bool:
        return self._recorded(self.rules.kv_copy())

    @cached_property
    def full_forgets(self) -> bool:
        return self._recorded(self.rules.kv_full())

    @cached_property
    def shift_dies(self) -> bool:
        return self._recorded(self.rules.kv_shift())

    @cached_property
    def shared_stays(self) -> bool:
        return self._recorded(self.rules.kv_shared())

    @cached_property
    def turn_first(self) -> bool:
        return bool(self.rules.kv_turn().value)

    @cached_property
    def mask_model(self) -> bool:
        return bool(self.rules.kv_mask().value)

    @cached_property
    def pos_set(self) -> bool:
        return bool(self.rules.kv_pos().value)

    @cached_property
    def tail_stays(self) -> bool:
        return bool(self.rules.rs_tail().value)

    @cached_property
    def mrope(self) -> str:
        return str(self.rules.kv_mrope().value)

    @cached_property
    def shift_ends(self) -> bool:
        return bool(self.rules.kv_quant(self.kind.head, self.kind.types[0] in QUANTIZED).value)

    @cached_property
    def index_spoilt(self) -> bool:
        return bool(self.rules.kv_index().value)

    @cached_property
    def pools_cut(self) -> bool:
        return self.kind.kind == "hybrid_idx" and bool(self.rules.pool_read().value)

    @cached_property
    def rows_emptied(self) -> bool:
        return self.kind.kind == "dsv4" and bool(self.rules.rows_read().value)

    @cached_property
    def index_dies(self) -> bool:
        return self.kind.kind in LATENT and bool(self.rules.index_shift().value)

    @cached_property
    def unchecked(self) -> bool:
        return bool(self.rules.batch_check().value)

    def _recorded(self, decision: Decision) -> bool:
        self.decisions.append(decision)
        return bool(decision.value)

    def ask(self) -> list[Decision]:
        """Ask for every trait now. Return the decisions that a server records when it starts, whatever its model."""
        for name in TRAITS:
            getattr(self, name)
        return self.decisions


TRAITS = [name for name, member in vars(AskedTraits).items() if isinstance(member, cached_property)]
"""Traits that are asked for."""
