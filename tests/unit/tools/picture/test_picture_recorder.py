"""Recorder of what a picture shows: cells of every run, the memory at every event if asked, and runs that stop."""

from __future__ import annotations

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture.cell_recorder import CellHistory
from cachesim.tools.picture.picture_recorder import PictureRecorder
from cachesim.tools.run.pictured_runs import run_pictured

LLAMA, VLLM = "llama_cpp@b11549", "vllm@0.33.0"


@pytest.mark.parametrize(("profile", "shared"), [(LLAMA, False), (VLLM, True)])
def test_requests_without_slots_share_the_points_of_a_walk(profile, shared):
    recorder = PictureRecorder(profile, True)
    assert recorder.walk_recorder is not None and recorder.walk_recorder.shared is shared
    assert recorder.observers == (recorder.cell_recorder, recorder.walk_recorder)


def test_without_events_only_the_cells_are_recorded():
    recorder = PictureRecorder(VLLM, False)
    assert recorder.walk_recorder is None and recorder.observers == (recorder.cell_recorder,)
    run = run_pictured(from_line("A40/A.B9", model="A", profiles=(VLLM,)), VLLM, events=False)
    assert run.told() is None and [*run.recorder.cell_recorder.cells().blocks] == [0, 1]


def test_a_run_has_its_events_in_sentences_and_a_scene_with_rule_sets_of_the_same_outcome():
    run = run_pictured(from_line("A40/A.B9", model="A", profiles=(LLAMA,)), LLAMA, events=True)
    told = run.told()
    assert told is not None and {*told.walk.rows} == {-1, 0, 1} and len(told.says) == len(told.walk.events)
    assert [row.number for row in run.scene().rows] == [0, 1] and run.scene().name == LLAMA
    assert "b10587" in run.scene(("llama_cpp@b10587",)).name
    assert isinstance(run.recorder.cell_recorder.cells(), CellHistory)


def test_a_run_that_stopped_has_no_events():
    run = run_pictured(from_line("A40/A.B9", model="A", profiles=(LLAMA,)), LLAMA, events=True)
    assert run._replace(data={**run.data, "not_run": [1]}).told() is None
