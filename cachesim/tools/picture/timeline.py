"""Timeline of runs: their drawings, with a slider over the event log. A page may contain several timelines.

``timeline`` returns the element with its data; a page contains ``style()`` and ``script()`` once. The script starts
every timeline of the page, and ``startTimeline(element)`` those that are inserted later.
"""

from __future__ import annotations

from string import Template
from typing import NamedTuple, Sequence

from cachesim.base.escaping import attribute
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.legend import legend_list
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.scene import Scene
from cachesim.tools.picture.script_data import packed, script_data
from cachesim.tools.picture.svg import RunDrawing, draw, first_difference, prefix


class DrawingFrame(NamedTuple):
    """HTML around the drawing of a run: above it, and beside or below it."""

    above: str = ""
    beside: str = ""


def timeline(
    scenes: Sequence[Scene], told: Sequence[CaptionedWalk] = (), around: Sequence[DrawingFrame] = (), name: str = "",
    differs: int | None = None, tabs: Sequence[str] = (), signs: bool = True,
) -> str:
    """Return a timeline as an HTML element. ``told``: event log of each run, () = unknown: no slider. ``around``: HTML
    around each drawing, () = none. ``name``: prefix of the anchors, different in each timeline of a page. ``differs``:
    request that is marked as the first difference, -1 = none, None = find it. ``tabs``: names of the runs, which are
    then shown one at a time; () = all runs side by side. ``signs``: with the hatchings, which a page contains once."""
    found = -1 if tabs else first_difference(scenes) if differs is None else differs
    names = tabs or [one.profile for one in scenes]
    parts = around or [DrawingFrame()] * len(scenes)
    each = enumerate(zip(scenes, parts, names, strict=True))
    first = _first_shown(scenes)
    runs = "".join(_run(*one, number, name, found, first, scenes) for number, one in each)
    sheet = f'<svg class="cs signs" width="0" height="0" aria-hidden="true">{asset(__file__, "patterns.svg")}</svg>'
    data = packed(script_data([RunDrawing(one, False, scenes) for one in scenes], told))
    return Template(asset(__file__, "timeline.html")).substitute(
        tabs=" data-tabs" * bool(tabs),
        of=attribute(f", {name}".rstrip("-, ")), signs=sheet * signs, runs=runs, walk=data
    )


def style() -> str:
    """Return the style of timelines: colours of pages, drawings, slider, bars of several engines."""
    files = "palette.css", "drawing.css", "timeline.css", "engine_bars.css"
    return "\n".join(asset(__file__, name) for name in files)


def script() -> str:
    """Return the script of timelines."""
    return "\n".join(asset(__file__, name) for name in ("run.js", "walk.js"))


def region(what: str, number: int, scene: Scene) -> str:
    """Return the attributes of a part that can scroll: keyboard focus and a name."""
    name = attribute(f"{what}, run {number + 1}: {scene.profile}")
    return f' tabindex="0" role="region" aria-label="{name}"'


def _run(
    scene: Scene, part: DrawingFrame, run: str, number: int, name: str, differs: int, first: int,
    scenes: Sequence[Scene],
) -> str:
    mark = name + prefix(number)
    drawing = draw([scene], number, differs, alone=False, name=name, beside=scenes)
    drawn = RunDrawing(scene, False, scenes)
    drawing = f'<div class="draw"{region(f"picture {name}".rstrip("- "), number, scene)}>{drawing}</div>'
    hint = '<p class="hint">wider than the screen: scroll sideways &rarr;</p>'
    drawing += f'<div class="under">{hint}{legend_list(scene, drawn.lanes, drawn.scale)}</div>'
    data = f'data-run="{attribute(run)}" data-first="{first}" data-mark="{attribute(mark)}"'
    above = f'<div class="above">{part.above}</div>'
    return f'<section class="run" {data}>{above}<div class="pair">{drawing}{part.beside}</div></section>'


def _first_shown(scenes: Sequence[Scene]) -> int:
    """Return the request that is selected when the page opens: the first wrong request, else the first with a loss."""
    rows = [row for scene in scenes for row in scene.rows]
    wrong = [row.number for row in rows if row.is_wrong]
    again = [row.number for row in rows if any(part.origin == "again" for part in row.stretches)]
    return next(iter([*wrong, *again, *(row.number for row in rows)]), 0)
