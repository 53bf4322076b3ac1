"""Generated parts of the lessons: outputs, numbers and pictures. ``make docs`` renews them.

    <!-- r = cachesim run 'A9.c3/A.b5' --model S -->  names the JSON of a command, for <!--= r[1].cache_n -->
    <!-- picture recurrent = llama-lesson-recurrent llama_cpp@b11549 -->  the picture on the next line, a run's name
    <!-- step recurrent 1: restored -->  an event that the timeline shows: run, request, part of its sentence
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Iterator

import cachesim
from cachesim.engines.registry import ENGINES, engine_of
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import SilentObserver, play
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.lessons.lesson_files import PICTURE, folder
from cachesim.tools.picture.scene import Scene
from cachesim.tools.picture.svg import draw
from cachesim.tools.run.pictured_runs import run_pictured
from tests.docs.examples import BLOCK
from tests.docs.fields import with_fields
from tests.docs.here import got, run_here, under_named
from tests.docs.letters import drawing
from tests.docs.toy import TOY

LESSONS = sorted(folder().glob("*.md"))
NAMED = re.compile(r"<!-- (\w+) = (cachesim .+?)(?: #(\d+))? -->")


def default(flag: str) -> Any:
    """Return llama-server's default of a flag."""
    return engine_of(DEFAULT_PROFILE).manual.defaults[flag]


def window_cells(n_swa: int, n_ubatch: int) -> int:
    """Return the number of cells in the cache of window layers, for a server with a single slot."""
    pad = cachesim.rules(DEFAULT_PROFILE).window_pad
    return -(-(n_swa + n_ubatch) // pad) * pad


class _Server(SilentObserver):
    """Observer that stores the server."""

    def started(self, server: Any) -> None:
        self.server = server


def span(line: str, model: str, **server: Any) -> tuple[int, int]:
    """Return pos_min and pos_max of slot 0 of llama-server after the requests of a line."""
    watcher = _Server()
    play(from_line(line, model=model, server={"parallel": 1, **server}), DEFAULT_PROFILE, "provenance", watcher)
    memory = watcher.server.core.memory
    return memory.pos_min(0), memory.pos_max(0)


def names(text: str) -> dict[str, Any]:
    """Return the names that fields of a lesson may use."""
    runs = {found[1]: got(found[2], int(found[3] or 0)) for found in NAMED.finditer(text)}
    return {**TOY, "span": span, "default": default, "window_cells": window_cells,
            "snapshots": ENGINES["mlx_lm"].manual.defaults["snapshot_interval"], **runs}  # fmt: skip


def renewed(text: str, moved: bool = True) -> str:
    """Return the text with current outputs and numbers. ``moved``: under the newest rule set where a command has no
    ``-p``, else under the one that the text names."""
    def output(found: re.Match[str]) -> str:
        command = found["command"]
        return run_here(command if moved else under_named(command, found["output"]))

    text = BLOCK.sub(lambda found: f"```console\n$ {found['command']}\n{output(found)}```", text)
    return with_fields(text, names(text))


def pictures() -> Iterator[tuple[Path, str, list[str]]]:
    """Yield for each picture its path without suffix, the scenario that it shows, and the profiles."""
    for lesson in LESSONS:
        for found in PICTURE.finditer(lesson.read_text("utf-8")):
            yield lesson.parent / Path(found["file"]).stem, found["case"], found["profiles"].split()


def drawn(name: str, profiles: list[str]) -> tuple[str, str]:
    """Return a picture as SVG and as text."""
    scenes = [scene_of(name, profile) for profile in profiles]
    return draw(scenes), drawing(scenes)


@cache
def scene_of(name: str, profile: str) -> Scene:
    """Return the scene of a scenario under a rule set."""
    case = cachesim.load(name)
    return run_pictured(case, profile, events=False).scene()


if __name__ == "__main__":
    for file in LESSONS:
        file.write_text(renewed(file.read_text("utf-8")), "utf-8")
    for stem, *shown in pictures():
        svg, letters = drawn(*shown)
        stem.with_suffix(".svg").write_text(svg, "utf-8")
        stem.with_suffix(".txt").write_text(letters, "utf-8")
