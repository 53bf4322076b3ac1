"""A run as an HTML page: the drawing, with the decisions of every request beside or below it. JavaScript is optional;
the network is not used.

With JavaScript, a slider walks the event log in both directions, and the picture shows the past events and the server's
memory at that event. A request is selected by a click, Enter, its anchor (#r4) or the slider; its decisions are shown
beside the drawing if there is room. Two runs are placed side by side and share a slider.

``page.html`` is the frame, ``page.css`` its style; ``timeline.py`` has the drawings, the slider and the script.
"""

from __future__ import annotations

from itertools import groupby
from string import Template
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.escaping import attribute, markup
from cachesim.tools.picture.event_stream import Told
from cachesim.tools.picture.page_assets import asset
from cachesim.tools.picture.position_scale import PROMPT, inner
from cachesim.tools.picture.scene import RuleSource, Scene, StepRow, TokenStretch
from cachesim.tools.picture.svg import lost_line, prefix
from cachesim.tools.picture.timeline import Around, region, script, style, timeline


def page(
    scenes: Sequence[Scene], command: str, note: str = "", focus: int | None = None, told: Sequence[Told] = ()
) -> str:
    """Return a page for runs of a scenario. ``command``: reproduces the runs in a terminal. ``note``: a line above the
    drawing. ``focus``: request whose decisions are open, None = none. ``told``: event log of each run, () = unknown: no
    slider."""
    first = scenes[0]
    red = not all(one.fine for one in scenes)
    texts = [(kind, text) for kind, text in (("", first.why), (f' class="note{" bad" * red}"', note)) if text]
    logs: Sequence[Told | None] = told or [None] * len(scenes)
    around = [_Run(one, log, number).around(focus)
              for number, (one, log) in enumerate(zip(scenes, logs, strict=True))]  # fmt: skip
    return Template(asset(__file__, "page.html")).substitute(
        title=markup(first.title), command=markup(command), style=f"{style()}\n{asset(__file__, 'page.css')}",
        texts="".join(f"<p{kind}>{markup(text)}</p>" for kind, text in texts),
        timeline=timeline(scenes, told, around), script=script(),
    )  # fmt: skip


class _Run(NamedTuple):
    """A run on a page."""

    scene: Scene
    told: Told | None
    number: int

    @property
    def decided(self) -> dict[int, list[str]]:
        """Decisions with an effect, by request, in order."""
        found: dict[int, list[str]] = {}
        if self.told is not None:
            for number, says, wanted in zip(self.told.walk.rows, self.told.says, self.told.decisions, strict=True):
                if wanted:
                    found.setdefault(number, []).append(says)
        return found

    def around(self, focus: int | None) -> Around:
        """Return the heading above the drawing, and the decisions of every request and the table beside it."""
        one, number = self.scene, self.number
        kind = "" if one.fine else ' class="bad"'
        rows = "".join(_table_row(row, one.causes) for row in one.rows)
        heads = ("#", "prompt", "slot", "reused", "evaluated", "verdict", "how", "evaluated again")
        table = f"<div class='table req'{region('requests', number, one)}>{_table(heads, rows)}</div>"
        decided = self.decided
        each = "".join(self._details(row, decided.get(row.number, []), row.number == focus) for row in one.rows)
        head = f"<h2>{markup(one.profile)}, model {markup(one.model)}: <span{kind}>{markup(one.verdict)}</span></h2>"
        why = f'<div class="why"{region("why", number, one)}>{each}</div>'
        return Around(head, f'{why}<div class="tables">{table}{self._rules()}</div>')

    def _details(self, row: StepRow, decided: Sequence[str], shown: bool) -> str:
        mine = "".join(_decision(says, len([*same])) for says, same in groupby(decided))
        lost = "".join(self._lost(row))
        why = f"<p>{markup(row.why)}</p>" if row.why else ""
        said = "; ".join(filter(None, (": ".join(filter(None, (row.verdict, row.reason))), *row.read)))
        kind = ' class="bad"' if row.wrong else ""
        total = f"{row.cache_n} reused, {row.prompt_n} evaluated"
        head = f"request {row.number} <code>{markup(inner(row.text, PROMPT))}</code>"
        body = f"<summary>{head}</summary><p{kind}>{markup(said)}. {total}</p>{why}{lost}"
        body += f"<dl>{mine}</dl>" if mine else ""
        return f'<details id="d-{prefix(self.number)}r{row.number}"{" open" * shown}>{body}</details>'

    def _lost(self, row: StepRow) -> Iterator[str]:
        """Yield the losses of a request: number of tokens, place, rule, its source, and the options that govern it."""
        for part in row.stretches:
            if part.origin == "again":
                mark = prefix(self.number)
                at = f" at <a href='#{mark}r{part.at}'>request {part.at}</a>" if part.at >= 0 else ""
                at += self._event(row, part, mark)
                tokens = f"{part.stop - part.start} tokens from {part.start} on"
                cause = _cause(part.rule, self.scene.causes.get(part.rule))
                yield f"<p>{tokens}, evaluated again: {markup(part.why)}{at}{cause}</p>"

    def _event(self, row: StepRow, part: TokenStretch, mark: str) -> str:
        """Return a link to the event at which the tokens were lost, "" if it is unknown."""
        k = self.told.walk.lost(row.number, part) if self.told is not None else None
        return "" if k is None else f", <a href='#{mark}e{k}'>event {k + 1}</a>"

    def _rules(self) -> str:
        """Return a table of the rules that caused losses, with sources and governing options."""
        rows = ""
        for cause in self.scene.causes.values():
            flags = "<br>".join(f"<code>{markup(flag)}</code>" for flag in cause.flags)
            rule = f"<td><code>{markup(cause.rule)}</code></td>"
            rows += f"<tr>{rule}<td>{markup(cause.source)}</td><td>{flags}</td></tr>"
        table = _table(("rule behind a loss", "source", "governed by"), rows)
        return f"<div class='table'{region('rules', self.number, self.scene)}>{table}</div>" if rows else ""


def _table(heads: Sequence[str], rows: str) -> str:
    cells = "".join(f"<th>{name}</th>" for name in heads)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{rows}</tbody></table>"


def _table_row(row: StepRow, causes: Mapping[str, RuleSource]) -> str:
    kind = ' class="bad"' if row.wrong else ""
    slot = str(row.slot) if row.slot >= 0 else ""
    how = "; ".join([row.reason, *row.read])
    cells = f"<td>{row.number}</td><td><code>{markup(row.text)}</code></td><td>{slot}</td>"
    cells += f"<td>{row.cache_n}</td><td>{row.prompt_n}</td>"
    again = "<br>".join(markup(lost_line(part, causes)) for part in row.stretches if part.origin == "again")
    return f"<tr>{cells}<td{kind}>{markup(row.verdict)}</td><td>{markup(how)}</td><td>{again}</td></tr>"


def _decision(says: str, times: int) -> str:
    rule, _, what = says.partition(": ")
    return f"<dt>{markup(rule)}<dd>{markup(what)}{f' ({times} times)' * (times > 1)}"


def _cause(rule: str, cause: RuleSource | None) -> str:
    """Return the rule with the options that govern it and a link to its source."""
    if cause is None:
        return f" ({markup(rule)})" if rule else ""
    parts = [f"<code>{markup(one)}</code>" for one in (rule, *cause.flags[:1])]
    if cause.link:
        parts.append(f'<a href="{attribute(cause.link)}">source</a>')
    return f" ({', '.join(parts)})"
