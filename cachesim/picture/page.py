"""A run as one page: the drawing, and beneath it the decisions of every request. Needs neither script nor network.

With script a slider walks the decisions in both directions and marks the request at which each was made; a request is
opened by a click, Enter or its anchor (#r4). Two runs stand side by side where there is room.
"""

from __future__ import annotations

from html import escape
from string import Template
from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.picture.causes import Cause
from cachesim.picture.scene import Row, Scene
from cachesim.picture.svg import draw, first_difference, prefix


class Step(NamedTuple):
    """A decision: the request at which it was made, the rule, and what it said."""

    request: int
    rule: str
    says: str


PAGE = Template("""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--dim:#5a5a5a;--bad:#b3001b;--edge:#9a9a9a;--tint:#eef3f8}
@media (prefers-color-scheme:dark){:root{--ink:#f0f0f0;--paper:#16181c;--dim:#b4b4b4;--bad:#ff8a8a;--edge:#6a6a6a;
--tint:#232a33}}
*{box-sizing:border-box}body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);
margin:1rem auto;max-width:120rem;padding:0 1rem}
.runs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,44rem),1fr));gap:1rem}
.run{min-width:0}.draw{overflow:auto;max-height:85vh;border:1px solid var(--edge)}
.draw svg{max-width:none;display:block;zoom:var(--zoom,1)}
code,td.rule,.cmd{font-family:ui-monospace,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.table{overflow-x:auto}table{border-collapse:collapse}
td,th{padding:.15rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--edge)}
td.n{text-align:right}.bad{color:var(--bad);font-weight:bold}summary{cursor:pointer}
#tools{position:sticky;top:0;background:var(--paper);border-bottom:1px solid var(--edge);padding:.4rem 0;z-index:1}
#tools button{font:inherit;min-width:2.2em}#now{min-height:3em;margin:.2rem 0}
input[type=range]{width:min(60rem,60%);vertical-align:middle}
g[tabindex]:focus,details:target,:focus-visible{outline:2px solid var(--bad);outline-offset:2px}
g.current .frame{fill:var(--tint)}h1{font-size:1.4rem}h2{font-size:1.15rem}
@media print{#tools{display:none}.draw{overflow:visible;max-height:none}details{display:block}}
</style></head><body><main>
<h1>$title</h1>
$texts
<p><code id="command">$command</code> <button type="button" id="copy" hidden>copy</button></p>
<section id="tools" hidden aria-label="walk through the decisions">
<button type="button" id="back" aria-label="decision before">&lt;</button>
<input id="at" type="range" min="0" max="$last" value="0" step="1" aria-label="decision">
<button type="button" id="on" aria-label="next decision">&gt;</button>
<output id="count" for="at">1</output>
<button type="button" id="out" aria-label="smaller">-</button>
<button type="button" id="in" aria-label="larger">+</button>
<p id="now" aria-live="polite"></p></section>
<div class="runs">$runs</div></main>
<script>
"use strict";
const $$=id=>document.getElementById(id),at=$$("at");
const steps=[...document.querySelectorAll("details td.rule")].map(td=>{const anchor=td.closest("details").id.slice(2);
return {anchor,run:td.closest("section").dataset.run,request:anchor.replace(/^.*r/,""),rule:td.textContent,
says:td.nextElementSibling.textContent};});
const rows=[...document.querySelectorAll("svg g[role=listitem]")];let zoom=1;
function mark(id){rows.forEach(g=>g.classList.toggle("current",g.id===id));}
function show(){const s=steps[+at.value];if(!s)return;
$$("count").textContent=(+at.value+1)+" of "+steps.length;
$$("now").textContent=(s.run?s.run+"  ":"")+"request "+s.request+"  "+s.rule+"  "+s.says;
at.setAttribute("aria-valuetext",$$("now").textContent);mark(s.anchor);}
function step(by){at.value=+at.value+by;show();}
function open(id){const d=$$("d-"+id);if(!d)return;d.open=true;mark(id);
const first=steps.findIndex(s=>s.anchor===id);if(first>=0){at.value=first;show();}}
function size(by){zoom=Math.min(4,Math.max(.25,zoom*by));document.body.style.setProperty("--zoom",zoom);}
function went(){const id=decodeURIComponent(location.hash.slice(1)).replace(/^d-/,"");if($$(id))open(id);}
if(steps.length){$$("tools").hidden=false;at.addEventListener("input",show);
$$("back").onclick=()=>step(-1);$$("on").onclick=()=>step(1);
$$("out").onclick=()=>size(.8);$$("in").onclick=()=>size(1.25);show();}
rows.forEach(g=>{const go=()=>{history.replaceState(null,"","#"+g.id);open(g.id);};
g.addEventListener("click",go);
g.addEventListener("keydown",e=>{if(e.key==="Enter"||e.key===" "){e.preventDefault();go();}});});
function copied(){$$("copy").textContent="copied";}
if(navigator.clipboard){$$("copy").hidden=false;
$$("copy").onclick=()=>navigator.clipboard.writeText($$("command").textContent).then(copied,()=>{});}
addEventListener("hashchange",went);went();
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
    texts = [(kind, text) for kind, text in (("", first.why), (' class="bad"', note)) if text]
    return PAGE.substitute(
        title=escape(first.title), command=escape(command),
        texts="".join(f"<p{kind}>{escape(text)}</p>" for kind, text in texts),
        last=max(0, sum(map(len, decisions)) - 1),
        runs="".join(_run(one, run, number, focus, first_difference(scenes))
                     for number, (one, run) in enumerate(zip(scenes, decisions, strict=True))),
    )  # fmt: skip


def _run(one: Scene, steps: Sequence[Step], number: int, focus: int | None, differs: int) -> str:
    kind = "" if one.fine else ' class="bad"'
    rows = "".join(_table_row(row) for row in one.rows)
    heads = "".join(f"<th>{name}</th>" for name in ("#", "prompt", "slot", "reused", "evaluated", "verdict", "how"))
    table = f"<div class='table'><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    each = "".join(_details(row, steps, number, one.causes, row.number == focus) for row in one.rows)
    name = escape(one.profile, quote=True)
    head = f"<h2>{escape(one.profile)}: <span{kind}>{escape(one.verdict)}</span></h2>"
    label = escape(f"picture {number + 1}: the run under {one.profile}", quote=True)
    drawing = f'<div class="draw" tabindex="0" role="region" aria-label="{label}">{draw([one], number, differs)}</div>'
    return f'<section class="run" data-run="{name}">{head}{drawing}{table}{each}</section>'


def _table_row(row: Row) -> str:
    kind = ' class="bad"' if row.wrong else ""
    slot = str(row.slot) if row.slot >= 0 else ""
    how = "; ".join([row.reason, *row.read])
    cells = f'<td class="n">{row.number}</td><td><code>{escape(row.text)}</code></td><td class="n">{slot}</td>'
    cells += f'<td class="n">{row.cache_n}</td><td class="n">{row.prompt_n}</td>'
    return f"<tr>{cells}<td{kind}>{escape(row.verdict)}</td><td>{escape(how)}</td></tr>"


def _details(row: Row, steps: Sequence[Step], number: int, causes: Mapping[str, Cause], shown: bool) -> str:
    mine = "".join(_decision(step) for step in steps if step.request == row.number)
    lost = "".join(_lost(row, causes, prefix(number)))
    if not mine and not lost:
        return ""
    why = f"<p>{escape(row.why)}</p>" if row.why else ""
    head = f"request {row.number} <code>{escape(row.text)}</code>"
    anchor = f"d-{prefix(number)}r{row.number}"
    opened = " open" if shown else ""
    inner = f"<summary>{head}</summary>{why}{lost}<div class='table'><table><tbody>{mine}</tbody></table></div>"
    return f'<details id="{anchor}"{opened}>{inner}</details>'


def _decision(step: Step) -> str:
    return f'<tr><td class="rule">{escape(step.rule)}</td><td>{escape(step.says)}</td></tr>'


def _lost(row: Row, causes: Mapping[str, Cause], mark: str) -> Iterator[str]:
    """What was evaluated again: where it was lost, by which rule, its source, the options that govern it."""
    for part in row.stretches:
        if part.origin == "again":
            at = f" at <a href='#{mark}r{part.at}'>request {part.at}</a>" if part.at >= 0 else ""
            tokens = f"{part.stop - part.start} tokens from {part.start} on"
            rule = f" (<code>{escape(part.rule)}</code>)" if part.rule else ""
            yield f"<p>{tokens}, evaluated again: {escape(part.why)}{at}{rule}{_cause(causes.get(part.rule))}</p>"


def _cause(cause: Cause | None) -> str:
    if cause is None:
        return ""
    flags = ", ".join(f"<code>{escape(flag)}</code>" for flag in cause.flags)
    source = escape(cause.source)
    link = f'<a href="{escape(cause.link, quote=True)}">{source}</a>' if cause.link else source
    return f"<br>source: {link}" + (f"<br>governed by {flags}" if flags else "")
