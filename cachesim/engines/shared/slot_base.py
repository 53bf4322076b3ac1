"""Base of slots of all servers: a task, a list of checkpoints, and the check of save, restore and erase requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput, quoted


class SlotBase:
    """A slot with ``task`` (None = no task) and ``checkpoints``, oldest first."""

    task: Any
    checkpoints: list[Any]

    @property
    def id_task(self) -> int | None:
        """Id of the task, None without a task."""
        return self.task.id if self.task else None

    @property
    def facts(self) -> list[Any]:
        """Facts of the checkpoints for the rules, oldest first."""
        return [c.facts for c in self.checkpoints]

    def drop(self, gone: tuple[int, ...]) -> list[Any]:
        """Remove the checkpoints with these indices and return them."""
        lost = [self.checkpoints[i] for i in gone]
        self.checkpoints = [c for i, c in enumerate(self.checkpoints) if i not in gone]
        return lost


def check_action(n_slots: int, action: str, id_slot: int, file: Path | None) -> None:
    """Raise BadInput for an unknown action, for a slot that does not exist, and for an action without its file."""
    if not 0 <= id_slot < n_slots:
        raise BadInput(f"slot {id_slot} does not exist", hint=f"0 to {n_slots - 1}")
    if action not in ("save", "restore", "erase"):
        raise BadInput(f"unknown slot action {quoted(action)}", hint="save, restore or erase")
    if action != "erase" and file is None:
        raise BadInput(f"slot action {quoted(action)} needs a file")
