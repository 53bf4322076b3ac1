"""A run as one page: the drawing, and beneath it the decisions of every request. Needs neither script nor network.

With script a slider walks the decisions in both directions and shows at which request each was made.
"""

from __future__ import annotations

import json
from html import escape
from string import Template
from typing import Iterator, NamedTuple, Sequence

from cachesim.picture.scene import Row, Scene
from cachesim.picture.svg import draw


class Step(NamedTuple):
    """A decision: the request at which it was made, the rule, and what it said."""

    request: int
    rule: str
    says: str


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--dim:#5a5a5a;--bad:#b3001b;--edge:#9a9a9a}
@media (prefers-color-scheme:dark){:root{--ink:#f0f0f0;--paper:#16181c;--dim:#b4b4b4;--bad:#ff7b7b;--edge:#6a6a6a}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:1rem auto;
max-width:90rem;padding:0 1rem}
.draw{overflow-x:auto}.draw svg{max-width:none}code,td.rule{font-family:ui-monospace,Menlo,Consolas,monospace}
table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{padding:.15rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--edge)}
td.n{text-align:right}.bad{color:var(--bad);font-weight:bold}.dim{color:var(--dim)}summary{cursor:pointer}
#now{min-height:3em}input[type=range]{width:100%}g[tabindex]:focus,details:target{outline:2px solid var(--bad)}
@media print{#walk{display:none}}
</style></head><body>
<h1>$title</h1>
<p>$why</p>
<p class="bad">$note</p>
<p><code>$command</code></p>
<div class="draw" tabindex="0" role="region" aria-label="picture of the run">$drawing</div>
<section id="walk" hidden><h2>Walk through the decisions</h2>
<label for="at">decision <output id="count">1</output></label>
<input id="at" type="range" min="0" max="$last" value="0" step="1"><p id="now" aria-live="polite"></p></section>
$runs
<script type="application/json" id="steps">$steps</script>
<script>
const steps=JSON.parse(document.getElementById("steps").textContent),at=document.getElementById("at");
function show(){const s=steps[+at.value];if(!s)return;const now=document.getElementById("now");
document.getElementById("count").textContent=(+at.value+1)+" of "+steps.length;
now.textContent="request "+s.request+"  "+s.rule+"  "+s.says;
document.querySelectorAll("svg g[role=listitem]").forEach(g=>g.style.opacity=g.id===s.anchor?1:.35);}
if(steps.length){document.getElementById("walk").hidden=false;at.addEventListener("input",show);
at.addEventListener("blur",()=>document.querySelectorAll("svg g[role=listitem]").forEach(g=>g.style.opacity=1));
document.querySelectorAll("svg g[role=listitem]").forEach(g=>g.addEventListener("keydown",e=>{
if(e.key==="Enter"){location.hash="#d-"+g.id;}}));}
</script>
</body></html>
""")


def page(
    scenes: Sequence[Scene], decisions: Sequence[Sequence[Step]], command: str, note: str = "",
    focus: int | None = None,
) -> str:
    """One page for runs of one scenario; ``decisions`` of each run in the order in which they were made; ``command``:
    what prints the same in a terminal; ``note``: a line above the drawing; ``focus``: the request whose decisions are
    open, None = none."""
    first = scenes[0]
    steps = [{**step._asdict(), "anchor": f"{_prefix(number)}r{step.request}"}
             for number, run in enumerate(decisions) for step in run]  # fmt: skip
    return PAGE.substitute(
        title=escape(first.title), why=escape(first.why), note=escape(note), command=escape(command),
        drawing=draw(scenes), last=max(0, len(steps) - 1), steps=_json(steps),
        runs="".join(_run(one, run, number, focus)
                     for number, (one, run) in enumerate(zip(scenes, decisions, strict=True))),
    )  # fmt: skip


def _prefix(number: int) -> str:
    """What the anchors of a run's requests begin with; those of the first are plain: #r4."""
    return f"p{number}-" if number else ""


def _json(steps: object) -> str:
    """JSON that ends no script element."""
    return json.dumps(steps).replace("<", "\\u003c")


def _run(one: Scene, steps: Sequence[Step], number: int, focus: int | None) -> str:
    kind = "" if one.verdict == "OK" else ' class="bad"'
    rows = "".join(_table_row(row) for row in one.rows)
    heads = "".join(f"<th>{name}</th>" for name in ("#", "prompt", "slot", "reused", "evaluated", "verdict", "how"))
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    each = "".join(_details(row, steps, number, row.number == focus) for row in one.rows)
    return f"<h2>{escape(one.profile)}: <span{kind}>{escape(one.verdict)}</span></h2>{table}{each}"


def _table_row(row: Row) -> str:
    kind = ' class="bad"' if row.wrong else ""
    slot = str(row.slot) if row.slot >= 0 else ""
    how = "; ".join([row.reason, *row.read])
    cells = f'<td class="n">{row.number}</td><td><code>{escape(row.text)}</code></td><td class="n">{slot}</td>'
    cells += f'<td class="n">{row.cache_n}</td><td class="n">{row.prompt_n}</td>'
    return f"<tr>{cells}<td{kind}>{escape(row.verdict)}</td><td>{escape(how)}</td></tr>"


def _details(row: Row, steps: Sequence[Step], number: int, shown: bool) -> str:
    mine = "".join(_decision(step) for step in steps if step.request == row.number)
    lost = "".join(_lost(row))
    if not mine and not lost:
        return ""
    why = f"<p>{escape(row.why)}</p>" if row.why else ""
    head = f"request {row.number} <code>{escape(row.text)}</code>"
    anchor = f"d-{_prefix(number)}r{row.number}"
    opened = " open" if shown else ""
    inner = f"<summary>{head}</summary>{why}{lost}<table><tbody>{mine}</tbody></table>"
    return f'<details id="{anchor}"{opened}>{inner}</details>'


def _decision(step: Step) -> str:
    return f'<tr><td class="rule">{escape(step.rule)}</td><td>{escape(step.says)}</td></tr>'


def _lost(row: Row) -> Iterator[str]:
    for part in row.stretches:
        if part.origin == "again":
            at = f" at <a href='#r{part.at}'>request {part.at}</a>" if part.at >= 0 else ""
            tokens = f"{part.stop - part.start} tokens from {part.start} on"
            yield f"<p>{tokens}, evaluated again: {escape(part.why)}{at}</p>"
