"""What slots of every server have in common: a task or none, and a list of checkpoints with their facts."""

from __future__ import annotations

from typing import Any


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
