"""Evaluation of a step: rows and states in their slots."""

from __future__ import annotations

from typing import Sequence

from cachesim.engines.sglang.scheduler import Part, Scheduler
from cachesim.engines.shared.cell_step import CellRun, CellStep
from cachesim.engines.shared.tree_points import STATE
from cachesim.model import Hidden


class Worker(Scheduler):
    """Model and contents of the slots."""

    def forward(self, parts: list[Part]) -> Sequence[Hidden | None]:
        """Evaluate the parts of a step; a part with a tracked state inside is evaluated in two pieces."""
        self.spend([(part.start, part.stop) for part in parts])
        content = self.states.content
        for row in (part.row for part in parts if part.row.state is not None):
            if row.copied is not None:
                content[row.state] = content.get(row.copied, {})
            elif not row.computed:
                content[row.state] = {}
            row.copied = None
        said: list[Hidden | None] = [None] * len(parts)
        taken = self._taken(parts)
        self._pass({k: part if at is None else part._replace(stop=at) for k, (part, at) in enumerate(taken)
                    if at != part.start}, said)  # fmt: skip
        for part in parts:
            if part.track is not None and part.row.track is not None:
                content[part.row.track[part.row.last_track]] = content.get(part.row.state, {})
        self._pass({k: part._replace(start=at) for k, (part, at) in enumerate(taken)
                    if at is not None and at < part.stop}, said)  # fmt: skip
        return said

    def _taken(self, parts: list[Part]) -> list[tuple[Part, int | None]]:
        """Return each part of a step with the length after which its tracked state is taken."""
        grid, flat, chunks, taken = self.opts.state_grid, 0, 0, list[tuple[Part, int | None]]()
        packed = any(layer.kind in "SH" for layer in self.kind.layers)      # Mamba-2: states of the whole batch
        for part in parts:
            n, at = part.stop - part.start, part.track
            if packed and at is not None and n > 1:
                at = part.start + self.rules.taken_after(at - part.start, n, flat, chunks, grid)
            taken.append((part, at))
            flat, chunks = flat + n, chunks + n // grid
        return taken

    def _pass(self, parts: dict[int, Part], said: list[Hidden | None]) -> None:
        if self.model is None or not parts:
            return
        content = self.states.content
        runs = [CellRun(row.id, start, row.identities(start, stop), content.get(row.state, {}))
                for row, start, stop, _ in parts.values()]  # fmt: skip
        step = CellStep(self, runs)
        for k, after, hidden in zip(parts, step.after, self.model.forward(step.runs(), step), strict=True):
            said[k] = hidden
            content[parts[k].row.state] = after

    def decline_states(self, part: Part) -> None:
        """Log that an evaluated part made no state: at its tokens but the last, and behind the state that it keeps."""
        if STATE in self.parts and part.stop - part.start > 1:
            rule = self.rules.track_prefill if self.buffered else self.rules.give_at_chunk
            for n in {part.start, part.track or part.start}:
                self.decline(part.row, n, rule)
