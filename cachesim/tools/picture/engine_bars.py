"""One conversation under several engines as bars: under each request a bar per engine, all on one scale, with the cause
of what was evaluated again at the end of the bar.

``bars_html`` makes a figure for pages, whose causes stand below the bars on a narrow screen, ``draw_bars`` makes a
drawing for SVG files. Text is escaped.
"""

from __future__ import annotations

from textwrap import wrap
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import attribute, markup
from cachesim.judging.verdict_text import answer_text
from cachesim.tools.picture.legend import LETTERS, WORDS, origins_list
from cachesim.tools.picture.position_scale import cut, inner, text
from cachesim.tools.picture.scene import Scene, StepRow, TokenStretch

GENERATED = "generated"
REUSED = frozenset({"kept", "reused", "moved", "restored", "loaded"})
MOST_REQUESTS = 200          # requests that a figure shows
PROMPT = 60                  # characters of a prompt in a heading
LETTER = 3.0                 # percent of the scale that a letter needs


class EngineBar(NamedTuple):
    """A request under an engine: the origins of its prompt tokens, and a line about them."""

    engine: str
    stretches: Sequence[TokenStretch]
    says: str
    is_wrong: bool


class RequestBars(NamedTuple):
    """A request with its bars. ``prompt``: its tokens."""

    number: int
    text: str
    prompt: int
    bars: Sequence[EngineBar]


def of_several_engines(scenes: Sequence[Scene]) -> bool:
    """True for runs of at least two engines."""
    return len({_engine(one) for one in scenes}) > 1


def request_bars(scenes: Sequence[Scene]) -> list[RequestBars]:
    """Return the bars of all requests. The run that reuses most tokens without a wrong answer comes first, as in the
    table of the terminal; a run that was cut off comes last, without a bar for the requests that it did not reach."""
    longest = max(scenes, key=lambda one: len(one.rows))
    ordered = sorted(scenes, key=lambda one: (len(one.rows) < len(longest.rows), *_rank(one)))
    engines = [_engine(one) for one in ordered]
    names = [
        engine if engines.count(engine) == 1 else one.profile for engine, one in zip(engines, ordered, strict=True)
    ]
    found = []
    for index, first in enumerate(longest.rows):
        rows = [(name, one.rows[index]) for name, one in zip(names, ordered, strict=True) if index < len(one.rows)]
        bars = [EngineBar(name, _prompt(row), _says(row), row.is_wrong) for name, row in rows]
        found.append(RequestBars(first.number, first.text, _length(first), bars))
    return found


def _engine(run: Scene) -> str:
    return run.profile.partition("@")[0]


def _rank(run: Scene) -> tuple[bool, int, str]:
    """Return the place of a run: without a wrong answer, then with more reused tokens, first."""
    reused = sum(part.stop - part.start for row in run.rows for part in row.stretches if part.origin in REUSED)
    return any(row.is_wrong for row in run.rows), -reused, run.profile


def _prompt(row: StepRow) -> list[TokenStretch]:
    return [part for part in row.stretches if part.origin != GENERATED]


def _length(row: StepRow) -> int:
    return max((part.stop for part in _prompt(row)), default=0)


def _says(row: StepRow) -> str:
    """Return what a bar shows in words: a verdict that is not correct, the reused tokens, and the most expensive cause
    of evaluating tokens again."""
    reused = sum(part.stop - part.start for part in _prompt(row) if part.origin in REUSED)
    lost: dict[str, int] = {}
    for part in _prompt(row):
        if part.origin == "again":
            lost[part.why] = lost.get(part.why, 0) + part.stop - part.start
    said = [answer_text(row.verdict)] if row.is_wrong else []
    prompt = _length(row)
    said += [f"{reused:,} of {prompt:,} {'token' if prompt == 1 else 'tokens'} reused"]
    if lost:
        cause = max(lost, key=lambda why: lost[why])
        said += [f"{lost[cause]:,} again: {cause}"]
    return "; ".join(said)


def _heading(request: RequestBars) -> str:
    return f"#{request.number} {inner(request.text, PROMPT)}, {counted(request.prompt, 'prompt token')}"


def _longest(requests: Sequence[RequestBars]) -> int:
    """Return the length of the longest bar in tokens: the whole scale."""
    return max((part.stop for one in requests for bar in one.bars for part in bar.stretches), default=1)


# --- For a page -----------------------------------------------------------------------------------------------

def bars_html(scenes: Sequence[Scene]) -> str:
    """Return the figure as HTML, "" for runs of one engine."""
    if not of_several_engines(scenes):
        return ""
    requests = request_bars(scenes)
    most = _longest(requests)
    shown = "".join(_request_html(one, most) for one in requests[:MOST_REQUESTS])
    left = len(requests) - MOST_REQUESTS
    more = f'<p class="dim">{counted(left, "more request")}</p>' if left > 0 else ""
    title = f"{len(scenes)} rule sets, the best first"
    signs = origins_list(scenes, {part.origin for one in requests for bar in one.bars for part in bar.stretches})
    return f'<section class="engines"><h2>{title}</h2>{signs}{shown}{more}</section>'


def _request_html(request: RequestBars, most: int) -> str:
    bars = "".join(_bar_html(bar, most) for bar in request.bars)
    return f"<h3>{markup(_heading(request))}</h3>{bars}"


def _bar_html(bar: EngineBar, most: int) -> str:
    """Return a bar: name, drawing, text. Widths are shares of the longest prompt, so that they fit any screen."""
    parts = "".join(_part(part, 100 * part.start / most, 100 * part.stop / most, "%", 0) for part in bar.stretches)
    says = attribute(f"{bar.engine}: {bar.says}")
    drawn = f'<svg class="cs" width="100%" height="18" role="img" aria-label="{says}">{parts}</svg>'
    bad = ' class="bad"' if bar.is_wrong else ""
    return f'<div class="bar"><b>{markup(bar.engine)}</b>{drawn}<span{bad}>{markup(bar.says)}</span></div>'


def _part(part: TokenStretch, start: float, stop: float, unit: str, y: float) -> str:
    """Return a stretch of a bar, with a letter if there is room. ``unit``: "%" or "" (pixels) of both ends."""
    title = f"{part.start} to {part.stop - 1}: {', '.join(filter(None, (WORDS[part.origin], part.why)))}"
    box = f'x="{start:.6g}{unit}" y="{y:g}" width="{stop - start:.6g}{unit}" height="18"'
    drawn = f'<rect {box} class="o-{part.origin}"><title>{markup(title)}</title></rect>'
    room = LETTER if unit else LETTER * SCALE / 100
    if stop - start >= room:
        drawn += f'<text class="letter" x="{(start + stop) / 2:.6g}{unit}" y="{y + 13:g}">{LETTERS[part.origin]}</text>'
    return drawn


# --- For an SVG file ------------------------------------------------------------------------------------------

LEFT, SCALE, RIGHT = 150.0, 500.0, 430.0     # pixels of the names, of the longest prompt, and of the texts
CHARACTERS = 56                              # of a line of text beside a bar
BAR, LINE, TOP = 24.0, 13.0, 34.0            # pixels of a bar with its gap, of a line of text, and of a heading
WIDTH = LEFT + SCALE + RIGHT


def draw_bars(scenes: Sequence[Scene], top: float) -> tuple[str, float]:
    """Return the figure as a part of an SVG drawing from ``top`` on, ``WIDTH`` pixels wide, and its height; nothing for
    runs of one engine."""
    if not of_several_engines(scenes):
        return "", 0.0
    requests = request_bars(scenes)
    most = _longest(requests)
    out = [text(12, top + 22, f"{len(scenes)} rule sets, the best first", "big")]
    y = top + 32
    for one in requests[:MOST_REQUESTS]:
        out.append(text(12, y + 18, _heading(one)))
        y += TOP
        for bar in one.bars:
            lines = wrap(bar.says, CHARACTERS)[:2]
            out += _bar_svg(bar, lines, most, y - 8)
            y += BAR + LINE * (len(lines) - 1)
    if len(requests) > MOST_REQUESTS:
        out.append(text(12, y + 18, f"{counted(len(requests) - MOST_REQUESTS, 'more request')}", "dim"))
        y += TOP
    return f'<g class="engines">{"".join(out)}</g>', y + 12 - top


def _bar_svg(bar: EngineBar, lines: Sequence[str], most: int, y: float) -> Iterator[str]:
    yield text(12, y + 13, cut(bar.engine, 18))
    for part in bar.stretches:
        yield _part(part, LEFT + SCALE * part.start / most, LEFT + SCALE * part.stop / most, "", y)
    for number, line in enumerate(lines):
        yield text(LEFT + SCALE + 12, y + 13 + LINE * number, line, "bad" if bar.is_wrong else "dim")
