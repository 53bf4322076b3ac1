"""The lessons: their outputs, numbers and pictures, made by the product. ``make docs`` renews them.

    <!-- r = cachesim try 'A9.c3/A.b5' --model S -->  names the JSON of a command, for <!--= r[1].cache_n -->
    <!-- picture = lesson-recurrent llama_cpp@b11549 -->  says what the picture on the next line shows
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import cachesim
from cachesim.engines.registry import ENGINES, engine_of
from cachesim.judging.run_data import run_data
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.runner import Silent, play
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.lessons.lesson_files import folder
from cachesim.tools.picture.scene import Scene, scene
from cachesim.tools.picture.svg import draw
from tests.docs.examples import BLOCK
from tests.docs.fields import with_fields
from tests.docs.here import got, run_here
from tests.docs.letters import drawing
from tests.docs.toy import TOY

LESSONS = sorted(folder().glob("*.md"))
NAMED = re.compile(r"<!-- (\w+) = (cachesim .+?)(?: #(\d+))? -->")
PICTURE = re.compile(r"<!-- picture = (.+?) -->\n!\[[^\]]*\]\(([\w-]+\.svg)\)")


def default(flag: str) -> Any:
    """What llama-server does with a flag that is not given."""
    return engine_of(DEFAULT_PROFILE).manual.defaults[flag]


def window_cells(n_swa: int, n_ubatch: int) -> int:
    """Cells of the cache of window layers, with one slot."""
    pad = cachesim.rules(DEFAULT_PROFILE).window_pad
    return -(-(n_swa + n_ubatch) // pad) * pad


class _Server(Silent):
    """Keeps the server."""

    def started(self, server: Any) -> None:
        self.server = server


def span(line: str, model: str, **server: Any) -> tuple[int, int]:
    """pos_min and pos_max of slot 0 of llama-server after the requests of a line."""
    watcher = _Server()
    play(from_line(line, model=model, server={"parallel": 1, **server}), DEFAULT_PROFILE, "provenance", watcher)
    memory = watcher.server.memory
    return memory.pos_min(0), memory.pos_max(0)


def names(text: str) -> dict[str, Any]:
    """What the fields of a lesson may name."""
    runs = {found[1]: got(found[2], int(found[3] or 0)) for found in NAMED.finditer(text)}
    return {**TOY, "span": span, "default": default, "window_cells": window_cells,
            "snapshots": ENGINES["mlx_lm"].manual.defaults["snapshot_interval"], **runs}  # fmt: skip


def renewed(text: str) -> str:
    """The text with the outputs and numbers of today."""
    text = BLOCK.sub(lambda m: f"```console\n$ {m['command']}\n{run_here(m['command'])}```", text)
    return with_fields(text, names(text))


def pictures() -> Iterator[tuple[Path, str, list[str]]]:
    """File of each picture without its ending, the case that it shows, and under which profiles."""
    for lesson in LESSONS:
        for found in PICTURE.finditer(lesson.read_text("utf-8")):
            name, *profiles = found[1].split()
            yield lesson.parent / Path(found[2]).stem, name, profiles


def drawn(name: str, profiles: list[str]) -> tuple[str, str]:
    """A picture as SVG and in letters."""
    scenes = [_scene(name, profile) for profile in profiles]
    return draw(scenes), drawing(scenes)


def _scene(name: str, profile: str) -> Scene:
    case = cachesim.load(name)
    return scene(case, run_data(cachesim.judge(case, profile, mode="provenance")))


if __name__ == "__main__":
    for one in LESSONS:
        one.write_text(renewed(one.read_text("utf-8")), "utf-8")
    for stem, *shown in pictures():
        svg, letters = drawn(*shown)
        stem.with_suffix(".svg").write_text(svg, "utf-8")
        stem.with_suffix(".txt").write_text(letters, "utf-8")
