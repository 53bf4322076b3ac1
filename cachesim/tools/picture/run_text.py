"""Text around the drawing of a run on a page: its verdict, the requests beside it, and tables below it."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Iterable, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import attribute, markup
from cachesim.events import Decided
from cachesim.judging.verdict_text import answer_text, sentence, titles_text
from cachesim.tools.picture.event_sentences import has_effect
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.legend import WORDS, origin_text
from cachesim.tools.picture.position_scale import PROMPT, inner
from cachesim.tools.picture.scene import RuleSource, Scene, StepRow, TokenStretch
from cachesim.tools.picture.svg import prefix
from cachesim.tools.picture.timeline import DrawingFrame, region


class RunText(NamedTuple):
    """A run on a page. ``number``: of the run; ``name``: its heading, "" = its rule sets; ``focus``: the request that
    the page is about, None = all."""

    scene: Scene
    told: CaptionedWalk | None
    number: int
    name: str = ""
    focus: int | None = None

    def around(self) -> DrawingFrame:
        """Return the heading above the drawing, and what stands beside and below it."""
        each = "".join(map(self._details, self.scene.rows))
        why = f'<div class="why"{region("why", self.number, self.scene)}>{each}</div>'
        return DrawingFrame(self._above(), f'{why}<div class="tables">{self._requests()}{self._rules()}</div>')

    def verdict(self, alone: bool) -> str:
        """Return the sentence of a run, the answer first, then the cost. ``alone``: without its rule set."""
        one, row = self.scene, self._focus
        about = "" if alone and not self.name else f"<small>{markup(self.name or one.name)}</small><br>"
        if row is None:
            return _sentence(about, one.answer, one.fine, one.cost)
        about += f"request {row.number} {self._prompt(row)}: "
        return _sentence(about, answer_text(row.verdict), not row.is_wrong, _cost(row))

    @property
    def _focus(self) -> StepRow | None:
        return next((row for row in self.scene.rows if row.number == self.focus), None)

    def _above(self) -> str:
        one = self.scene
        model = f"{one.name}, model {one.model}" if self.name else f"model {one.model}"
        head = f"<h2>{markup(self.name or one.name)} <small>{markup(model)}</small></h2>"
        return head + (self._positions(self._focus) if self._focus else "")

    def _details(self, row: StepRow) -> str:
        mark, focus = prefix(self.number), row.number == self.focus
        kind = ' class="bad"' if row.is_wrong else ""
        said = ": ".join(filter(None, (answer_text(row.verdict), row.reason)))
        head = f"request {row.number} {self._prompt(row)}"
        body = f"<summary>{head}</summary><p{kind}>{markup('; '.join(filter(None, (said, *row.read))))}</p>"
        body += f"<p>{markup(row.why)}</p>" if row.why else ""
        body += f"<p>{markup('; '.join(row.held))}</p>" if row.held else ""
        body += self._positions(row) if not focus else ""
        return f'<details id="d-{mark}r{row.number}"{" open" * focus}>{body}{self._decisions(row.number)}</details>'

    def _prompt(self, row: StepRow) -> str:
        """Return the prompt in words, with their titles as a tooltip."""
        found = titles_text({word.name: word.title for word in row.words if word.title})
        kind = f' title="{attribute(found)}"' if found else ""
        return f"<code{kind}>{markup(inner(row.text, PROMPT))}</code>"

    def _positions(self, row: StepRow) -> str:
        """Return the ranges of a request in order: positions, a bar at their place, and where the tokens come from."""
        end = max((part.stop for part in row.stretches), default=0)
        each = (f'<li><span class="positioned">{part.start:,}..{part.stop - 1:,}</span>{_bar(part, end)}'
                f"<span>{self._origin(row, part)}</span></li>" for part in row.stretches)  # fmt: skip
        return f'<ol class="positions">{"".join(each)}</ol>' if end else ""

    def _origin(self, row: StepRow, part: TokenStretch) -> str:
        """Return where the tokens of a range come from; of a loss also the request, event, rule, options and source."""
        tokens = counted(part.stop - part.start, "token")
        if part.origin != "again":
            return f"{tokens} {markup(origin_text(part.origin, self.scene))}"
        mark = prefix(self.number)
        at = f" at <a href='#{mark}r{part.at}'>request {part.at}</a>" if part.at >= 0 else ""
        why = f": {markup(part.why)}" if part.why else ""
        cause = _cause(part.rule, self.scene.causes.get(part.rule))
        return f"<strong>{tokens} {WORDS['again']}</strong>{why}{at}{self._event(row, part, mark)}{cause}"

    def _event(self, row: StepRow, part: TokenStretch, mark: str) -> str:
        """Return a link to the event at which the tokens were lost, "" if it is unknown."""
        k = self.told.walk.lost(row.number, part) if self.told is not None else None
        return "" if k is None else f", <a href='#{mark}e{k}'>show the event</a>"

    def _decisions(self, number: int) -> str:
        """Return the decisions of a request with an effect, in order, and in a fold the first other decision of each
        rule."""
        if self.told is None:
            return ""
        walk = self.told.walk
        mine = [event for row, event in zip(walk.rows, walk.events, strict=False)
                if row == number and isinstance(event, Decided)]  # fmt: skip
        shown, quiet = ([event for event in mine if has_effect(event) is kind] for kind in (True, False))
        out = _listed((next(same), 1 + len([*same])) for _, same in groupby(shown, key=_said))
        if quiet:
            rules, first = Counter(event.rule for event in quiet), {event.rule: event for event in reversed(quiet)}
            rest = _listed((first[rule], times) for rule, times in rules.items())
            out += f"<details><summary>{len(quiet)} more without an effect</summary>{rest}</details>"
        return out

    def _requests(self) -> str:
        """Return the table of all requests with their sums."""
        heads = ("#", "prompt", "slot" * (not self.scene.has_pool), "reused", "evaluated", "again", "answer", "how")
        rows = [self._cells(row) for row in self.scene.rows]
        sums = [sum(numbers) for numbers in zip(*(_counts(row) for row in self.scene.rows), strict=True)]
        total = ["", "total", "", *(f"{n:,}" for n in sums), "", ""] if len(rows) > 1 else []
        return f"<div class='table req'{region('requests', self.number, self.scene)}>{_table(heads, rows, total)}</div>"

    def _cells(self, row: StepRow) -> list[str]:
        kind = ' class="bad"' if row.is_wrong else ""
        how = markup("; ".join(filter(None, (row.reason, *row.read))))
        slot = str(row.slot) if row.slot >= 0 and not self.scene.has_pool else ""
        return [str(row.number), self._prompt(row), slot, *(f"{n:,}" if n else "·" for n in _counts(row)),
                f"<span{kind}>{markup(answer_text(row.verdict))}</span>", how]  # fmt: skip

    def _rules(self) -> str:
        """Return a table of the rules that caused losses, with sources and governing options."""
        rows = [[f"<code>{markup(cause.rule)}</code>", markup(cause.source),
                 "<br>".join(f"<code>{markup(flag)}</code>" for flag in cause.flags)]
                for cause in self.scene.causes.values()]  # fmt: skip
        table = _table(("rule behind a loss", "source", "governed by"), rows)
        return f"<div class='table'{region('rules', self.number, self.scene)}>{table}</div>" if rows else ""


def _sentence(about: str, answer: str, fine: bool, cost: str) -> str:
    """Return a verdict. ``about``: HTML before it."""
    kind = "good" if fine else "bad"
    lost = "" if cost.startswith("0 ") else ' class="lost"'
    said = f", <span{lost}>{markup(cost)}</span>" if cost else ""
    return f'<p class="verdict">{about}<span class="{kind}">{markup(answer)}</span>{said}</p>'


def _cost(row: StepRow) -> str:
    """Return the cost of a request: the tokens evaluated again, with the reason of most of them."""
    lost = [part for part in row.stretches if part.origin == "again"]
    most = max(lost, key=lambda part: part.stop - part.start, default=None)
    cost = f"{counted(_counts(row)[2], 'token')} re-evaluated"
    return cost if most is None else f"{cost}: {most.why}"


def _counts(row: StepRow) -> tuple[int, int, int]:
    """Return the tokens of a request that were reused, evaluated, and evaluated again."""
    lost = sum(part.stop - part.start for part in row.stretches if part.origin == "again")
    return row.cache_n, row.prompt_n, lost


def _bar(part: TokenStretch, end: int) -> str:
    """Return a bar at the place of a range among ``end`` positions."""
    x, wide = 100 * part.start / end, 100 * (part.stop - part.start) / end
    box = f'class="o-{part.origin}" x="{min(x, 99):.4g}%" width="{max(wide, 1):.4g}%" height="100%"'
    return f'<svg class="cs" aria-hidden="true"><rect {box}/></svg>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], total: Sequence[str] = ()) -> str:
    """Return a table of HTML cells."""
    def row(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{cell}</{tag}>' for cell in cells)}</tr>"

    foot = f"<tfoot>{row('td', total)}</tfoot>" if total else ""
    body = "".join(row("td", cells) for cells in rows)
    return f"<table><thead>{row('th', heads)}</thead><tbody>{body}</tbody>{foot}</table>"


def _said(event: Decided) -> str:
    return sentence(event.rule, event.value, event.because, every=True)


def _listed(decided: Iterable[tuple[Decided, int]]) -> str:
    """Return decisions as a list: the sentence, then its rule, and how often."""
    items = (f"<li>{markup(_said(event))}{f' ({times} times)' * (times > 1)} <code>{markup(event.rule)}</code></li>"
             for event, times in decided)  # fmt: skip
    return f'<ul class="decisions">{found}</ul>' if (found := "".join(items)) else ""


def _cause(rule: str, cause: RuleSource | None) -> str:
    """Return the rule with the options that govern it and a link to its source."""
    if not rule:
        return ""
    parts = [f"<code>{markup(one)}</code>" for one in (rule, *(cause.flags[:1] if cause else ()))]
    if cause is not None and cause.link:
        parts.append(f'<a href="{attribute(cause.link)}">source</a>')
    return f' <span class="rule">{", ".join(parts)}</span>'
