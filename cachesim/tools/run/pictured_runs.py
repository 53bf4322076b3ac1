"""Judged runs that are recorded for pictures, and pictures of cases that a command names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

from cachesim.base.escaping import shell_command
from cachesim.tools.picture.picture_options import PictureFiles, PictureOptions, write_pictures

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.picture.picture_recorder import PicturedRun


def run_pictured(scenario: Scenario, profile: str, events: bool) -> PicturedRun:
    """Run a scenario under a profile and return the run for a picture. ``events``: with the memory at every event, for
    a slider. Raise BadInput if it cannot run."""
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data
    from cachesim.tools.picture.picture_recorder import PicturedRun, PictureRecorder

    recorder = PictureRecorder(profile, events)
    return PicturedRun(scenario, run_data(run_judged(scenario, profile, "provenance", watcher=recorder)), recorder)


def draw_cases(
    pictures: PictureFiles, cases: Iterable[tuple[Scenario, str]], shown: PictureOptions | None = None
) -> None:
    """Run scenarios, each under a profile, and write the requested pictures. Raise BadInput if that fails."""
    if pictures.are_wanted():
        events = bool(pictures.html)
        write_pictures(pictures, [run_pictured(scenario, profile, events) for scenario, profile in cases], shown)


def draw_text(pictures: PictureFiles, text: str, shown: PictureOptions | None = None) -> None:
    """Run the scenario file of this text under its first profile and write the requested pictures. The page shows the
    command for its line, or that of ``shown`` if a line cannot express the scenario. Raise BadInput if that fails."""
    if not pictures.are_wanted() or not text:
        return
    from cachesim.engines.registry import profiles
    from cachesim.judging.reproduce_command import case_words
    from cachesim.scenarios.load import load_text

    scenario = load_text(text, profiles().keys())
    words = case_words(scenario, scenario.profiles[0])
    if len(words) > 3:                                  # a line
        shown = (shown or PictureOptions())._replace(command=shell_command(["cachesim", "run", *words]))
    draw_cases(pictures, [(scenario, scenario.profiles[0])], shown)
