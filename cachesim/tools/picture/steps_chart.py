"""The steps of schedulers as a chart for pages: a lane per request, steps from left to right.

A lane shows where the request evaluates its prompt, its answer or drafts, where it waits, and where it loses its memory
to others. The title of a part says what limited it. Text is escaped.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import attribute, markup
from cachesim.judging.schedule_text import limit_text, summary, tokens_text
from cachesim.tools.picture.page_assets import asset

Data = Mapping[str, Any]
MOST_LANES = 200            # requests that a chart shows
WORDS = {
    "s-prompt": "evaluates its prompt",
    "s-answer": "evaluates its answer",
    "s-wait": "waits",
    "s-taken": "loses its memory",
}
"""Class of a part -> its meaning in the legend."""


class LanePart(NamedTuple):
    """Consecutive steps ``start`` .. ``stop`` - 1 in which a request does the same. ``says``: what, and its limit."""

    start: int
    stop: int
    kind: str
    says: str


class StepOfLane(NamedTuple):
    """What a request does in a step."""

    step: int
    kind: str
    says: str


def steps_html(runs: Sequence[Data]) -> str:
    """Return the charts of runs, one for each with steps, and their style; "" if their data have none."""
    charts = [_chart(run["profile"], run["steps"]) for run in runs if "steps" in run]
    style = f"<style>{asset(__file__, 'steps_chart.css')}</style>" if charts else ""
    return style + "".join(charts)


def lane_parts(schedule: Data) -> dict[int, list[LanePart]]:
    """Return the parts of the lane of each request. Steps in which a request does nothing are in no part."""
    lanes: dict[int, list[StepOfLane]] = {}
    for step in schedule["scheduled"]:
        for request, one in _in_step(step, schedule["preemption_word"]):
            lanes.setdefault(request, []).append(one)
    return {request: [*_joined(lanes[request])] for request in sorted(lanes)}


def _in_step(step: Data, preemption: str) -> Iterator[tuple[int, StepOfLane]]:
    """Yield what each request does in a step."""
    number = step["step"]
    taken = {one["request"] for one in step["preempted_in_step"]}
    for run in step["runs_in_step"]:
        kind = "s-prompt" if run["prompt_tokens"] else "s-answer"
        cut = [f"cut: {limit_text(limit)}" for limit in run["cut_by"]]
        yield run["request"], StepOfLane(number, kind, "; ".join([tokens_text(run), *cut]))
    for wait in step["waits_in_step"]:
        is_taken = wait["request"] in taken
        says = f"{preemption if is_taken else 'waits'}: {limit_text(wait)}"
        yield wait["request"], StepOfLane(number, "s-taken" if is_taken else "s-wait", says)


def _joined(steps: Sequence[StepOfLane]) -> Iterator[LanePart]:
    """Yield the parts of a lane: steps that follow each other with the same text."""
    for (_, kind, says), group in groupby(enumerate(steps), key=lambda one: (one[1].step - one[0], *one[1][1:])):
        numbers = [one.step for _, one in group]
        yield LanePart(numbers[0], numbers[-1] + 1, kind, says)


def _chart(profile: str, schedule: Data | None) -> str:
    if schedule is None:
        return f'<p class="dim">{markup(profile)}: its server does not schedule steps</p>'
    lanes = lane_parts(schedule)
    shown = list(lanes)[:MOST_LANES]
    most = max(1, len(schedule["scheduled"]))
    rows = "".join(_lane(request, lanes[request], most) for request in shown)
    left = len(lanes) - len(shown)
    more = f'<p class="dim">{counted(left, "more request")}</p>' if left else ""
    return (f'<section class="steps"><h2>{markup(f"{profile}: {summary(schedule)}")}</h2>{_legend()}{rows}{more}'
            "</section>")  # fmt: skip


def _legend() -> str:
    """Return the meaning of each kind of part."""
    parts = (f'<span><svg class="cs" width="14" height="14" aria-hidden="true"><rect width="14" height="14" '
             f'class="{kind}"/></svg> {markup(text)}</span>' for kind, text in WORDS.items())  # fmt: skip
    return f'<p class="dim legend-of-steps">{" ".join(parts)}</p>'


def _lane(request: int, parts: Sequence[LanePart], most: int) -> str:
    """Return a lane. Widths are shares of all steps, so that they fit any screen."""
    rects = "".join(_part(part, most) for part in parts)
    name = attribute(f"request {request}: {'; '.join(f'{_steps(part)} {part.says}' for part in parts[:20])}")
    drawn = f'<svg class="cs" width="100%" height="18" role="img" aria-label="{name}">{rects}</svg>'
    return f'<div class="lane"><b>#{request}</b>{drawn}</div>'


def _part(part: LanePart, most: int) -> str:
    left = 100 * (part.start - 1) / most
    width = 100 * (part.stop - part.start) / most
    title = markup(f"{_steps(part)}: {part.says}")
    height = 6 if part.kind == "s-wait" else 18
    top = 6 if part.kind == "s-wait" else 0
    return (f'<rect x="{left:.6g}%" y="{top}" width="{width:.6g}%" height="{height}" class="{part.kind}">'
            f"<title>{title}</title></rect>")  # fmt: skip


def _steps(part: LanePart) -> str:
    if part.stop - part.start == 1:
        return f"step {part.start}"
    return f"steps {part.start} to {part.stop - 1}"
