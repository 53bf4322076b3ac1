"""A run as an HTML page: the verdict, the report, the drawing, with the decisions of every request beside or below it.
JavaScript is optional; the network is not used.

With JavaScript, a slider walks the event log in both directions, and the picture shows the past events and the server's
memory at that event. A request is selected by a click, Enter, its anchor (#r4) or the slider; its decisions are shown
beside the drawing if there is room. Two runs are placed side by side and share a slider.

``page.html`` is the frame, ``page.css`` its style; ``timeline.py`` has the drawings, the slider and the script,
``run_text.py`` the text around them.
"""

from __future__ import annotations

from string import Template
from typing import Iterator, Sequence

from cachesim.base.escaping import markup
from cachesim.judging.verdict_text import titles_text
from cachesim.tools.picture.engine_bars import bars_html
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.report_html import report_html
from cachesim.tools.picture.run_text import RunText
from cachesim.tools.picture.scene import Scene
from cachesim.tools.picture.shown import PictureOptions
from cachesim.tools.picture.steps_chart import steps_html
from cachesim.tools.picture.timeline import script, style, timeline


def page(scenes: Sequence[Scene], shown: PictureOptions, told: Sequence[CaptionedWalk] = ()) -> str:
    """Return a page for runs of a scenario. ``shown``: what stands around the drawings. ``told``: event log of each
    run, () = unknown: no slider."""
    first = scenes[0]
    texts = [("", first.why), ("dim", titles_text(first.titles))]
    logs: Sequence[CaptionedWalk | None] = told or [None] * len(scenes)
    names = shown.names or [""] * len(scenes)
    runs = [RunText(one, log, number, name, shown.focus) for number, (one, log, name) in
            enumerate(zip(scenes, logs, names, strict=True))]  # fmt: skip
    return Template(asset(__file__, "page.html")).substitute(
        title=markup(first.title), style=f"{style()}\n{asset(__file__, 'page.css')}",
        lead=f'<p class="lead">{markup(shown.note)}</p>' if shown.note else "",
        verdicts="".join(one.verdict(len(runs) == 1) for one in runs),
        texts="".join(f'<p class="{kind}">{markup(text)}</p>' for kind, text in texts if text),
        engines=bars_html(scenes), steps=steps_html(shown.schedules), report="".join(_report(shown, first.title)),
        timeline=timeline(scenes, told, [one.around() for one in runs]), command=markup(shown.command), script=script(),
    )  # fmt: skip


def _report(shown: PictureOptions, title: str) -> Iterator[str]:
    """Yield the report without the title, and in a fold the report with -v."""
    if shown.report is not None:
        yield f'<section class="report">{report_html(shown.report, "report", (shown.note, title))}</section>'
    if shown.verbose is not None:
        verbose = report_html(shown.verbose, "whole report")
        yield f'<details class="fold report"><summary>the report with every line</summary>{verbose}</details>'
