"""What slots of every server have in common: a task or none, a list of checkpoints with their facts, three actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput, quoted


class SlotBase:
    """A slot with ``task`` (None = it has none) and ``checkpoints``, oldest first."""

    task: Any
    checkpoints: list[Any]

    @property
    def id_task(self) -> int | None:
        """Id of the task, None when the slot has none."""
        return self.task.id if self.task else None

    @property
    def facts(self) -> list[Any]:
        """The checkpoints as the rules see them, oldest first."""
        return [c.facts for c in self.checkpoints]

    def drop(self, gone: tuple[int, ...]) -> list[Any]:
        """Remove the checkpoints with these indices; returns them."""
        lost = [self.checkpoints[i] for i in gone]
        self.checkpoints = [c for i, c in enumerate(self.checkpoints) if i not in gone]
        return lost


def check_action(n_slots: int, action: str, id_slot: int, file: Path | None) -> None:
    """Raise BadInput for an unknown action, a slot that does not exist, or one that lacks its file."""
    if not 0 <= id_slot < n_slots:
        raise BadInput(f"there is no slot {id_slot}", hint=f"0 to {n_slots - 1}")
    if action not in ("save", "restore", "erase"):
        raise BadInput(f"unknown slot action {quoted(action)}", hint="save, restore or erase")
    if action != "erase" and file is None:
        raise BadInput(f"slot action {quoted(action)} needs a file")
