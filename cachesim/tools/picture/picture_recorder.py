"""Recorder of what pictures show besides the data of a judged run, and runs with this record."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

from cachesim.engines.registry import engine_of
from cachesim.scenarios.runner import Observers
from cachesim.scenarios.schema import Scenario
from cachesim.tools.picture.cell_recorder import CellRecorder
from cachesim.tools.picture.event_sentences import told
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.scene import Scene, scene
from cachesim.tools.picture.walk_recorder import WalkRecorder


class PictureRecorder(Observers):
    """Observer that records the memory for a picture of a run under a profile. ``events``: also at every event, for a
    slider."""

    def __init__(self, profile: str, events: bool) -> None:
        self.cell_recorder = CellRecorder()
        self.walk_recorder = WalkRecorder(shared=not engine_of(profile).manual.slots) if events else None
        super().__init__(self.cell_recorder, *([self.walk_recorder] if self.walk_recorder is not None else []))


class PicturedRun(NamedTuple):
    """A judged run, its data as ``run_data`` returns them, and the recorder that observed it."""

    scenario: Scenario
    data: dict[str, Any]
    recorder: PictureRecorder

    def scene(self, same: Sequence[str] = ()) -> Scene:
        """Return the scene of the run. ``same``: other rule sets with its outcome."""
        return scene(self.scenario, self.data, self.recorder.cell_recorder.cells(), same)

    def told(self) -> CaptionedWalk | None:
        """Return the event log in sentences; None if it was not recorded or the run is incomplete."""
        recorder = self.recorder.walk_recorder
        return None if recorder is None or self.data["not_run"] else told(recorder.walk())
