"""Sections of the report that rest on the log alone: causes, what its lines say, what follows from them."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import printable_line
from cachesim.base.layout import WholeTable
from cachesim.scenarios.known_repairs import repair_of_rule
from cachesim.tools.server_logs.facts.statements import ENDED, TOTAL
from cachesim.tools.server_logs.report.headline import most_lost_of
from cachesim.tools.server_logs.report.shown_requests import (
    Said,
    ShownRequest,
    request_key,
    request_name,
    shown_requests,
    span_of,
)

CAUSES = 2                   # causes that are shown without -v
ROWS = 3                     # requests, likewise
KINDS = 6                    # kinds of lines
LINES = 4                    # line numbers of a proof
FEW = 1                      # line numbers of a kind
COLUMNS = {"n_tokens": "prompt", "held": "held", "lcp": "common", "cache_n": "reused", "prompt_n": "evaluated",
           "lost": "lost", "end": "after"}  # fmt: skip
"""Columns of the table of requests, by the name of the number."""


def causes(statements: Sequence[Said], everything: bool) -> Iterator[Text]:
    """Yield the causes that the log proves, a line for the requests with the same causes, most expensive first."""
    requests: dict[Any, list[Said]] = {}
    for said in statements:
        if said["kind"] == "follows" and said["what"] == "cause":
            requests.setdefault(request_key(said), []).append(said)
    groups: dict[frozenset[str], list[list[Said]]] = {}
    for found in sorted(requests.values(), key=_most_lost, reverse=True):
        groups.setdefault(frozenset(said["numbers"]["cause"] for said in found), []).append(found)
    for number, group in enumerate(groups.values()):
        if number == CAUSES and not everything:
            yield Text(f"  {counted(len(groups) - CAUSES, 'more cause')} with -v", "dim")
            return
        for found in group if everything else group[:1]:
            is_of_request = found[0]["slot"] is not None or found[0]["task"] is not None
            others = counted(len(group) - 1, "request" if is_of_request else "more line")
            also = "" if everything or len(group) == 1 else f"; likewise {others}"
            says = "; ".join(printable_line(said["says"]) for said in found)
            lines = _lines(sorted({line for said in found for line in said["lines"]}), everything)
            label = "Cause: " if any("lost" in said["numbers"] for said in found) else "Warning: "
            yield Text.assemble((label, "bold"), f"{request_name(request_key(found[0]))}: {says}, {lines}{also}.")


def _most_lost(causes: Sequence[Said]) -> int:
    """Return the tokens that the costliest of these causes lost at least."""
    return max(span_of(said["numbers"].get("lost", 0))[0] for said in causes)


def _lines(lines: Sequence[int], everything: bool = False) -> str:
    """Return line numbers as text, consecutive numbers as a range."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    shown = spans if everything else spans[:LINES]
    more = ", ..." if len(spans) > len(shown) else ""
    texts = (str(low) if low == high else f"{low}-{high}" for low, high in shown)
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(texts)}{more}"


def read_rows(statements: Sequence[Said], everything: bool) -> Iterator[Text]:
    """Yield what the lines say: with -v every line, else each kind with its lines."""
    found = [said for said in statements if said["kind"] == "read"]
    if everything:
        for said in found:
            yield Text(f"line {said['lines'][0]}: {printable_line(said['says'])}")
        return
    lines: dict[str, list[int]] = {}
    for said in found:
        lines.setdefault(said["what"], []).extend(said["lines"])
    ranked = sorted(lines.items(), key=lambda pair: -len(pair[1]))
    parts = [f"{kind} {len(numbers):,} ({_few(numbers)})" for kind, numbers in ranked[:KINDS]]
    more = f"; {counted(len(ranked) - KINDS, 'more kind')} with -v" if len(ranked) > KINDS else ""
    if parts:
        yield Text(f"kinds of lines: {', '.join(parts)}{more}")


def _few(numbers: Sequence[int]) -> str:
    """Return the first line numbers of a kind."""
    return f"line {', '.join(map(str, numbers[:FEW]))}{', ...' if len(numbers) > FEW else ''}"


def follows_rows(statements: Sequence[Said], everything: bool) -> Iterator[Text | WholeTable]:
    """Yield what follows from the log: a table of requests, and facts about the server; with -v every statement."""
    found = [said for said in statements if said["kind"] == "follows"]
    if everything:
        for said in found:
            where = f"{request_name(request_key(said))}: " if said["what"] in ("request", "cause") else ""
            yield Text(f"{where}{printable_line(said['says'])}, {_lines(said['lines'], True)}")
        return
    facts = [said["says"] for said in found if said["what"] not in ("request", "cause", "option", ENDED, TOTAL)]
    options = sum(said["what"] == "option" for said in found)
    if options:
        facts.append(f"{counted(options, 'option')} of the server with -v")
    if facts:
        yield Text(printable_line("; ".join(facts)))
    requests = shown_requests(found)
    any_lost = any(span_of(one.numbers.get("lost", 0))[0] for one in requests)
    for said in (said for said in found if said["what"] == TOTAL):
        yield Text(f"{printable_line(said['says'])}, {_lines(said['lines'])}")
        if any_lost and (repair := repair_text(said)):      # else it is one of the first lines
            yield Text(repair)
    if not any_lost and (most := most_lost_of(requests)):
        yield Text(f"at most {most:,} {'token' if most == 1 else 'tokens'} of common prefixes evaluated again")
    if requests:
        yield _table(requests)


def repair_text(said: Said) -> str:
    """Return the pull request that repairs the loss of a total, with a case; "" if none is known, or if the total names
    no rule."""
    rule = said["numbers"].get("rule", "")
    repair = repair_of_rule(rule) if rule else None
    if repair is None:
        return ""
    return f"Rule {rule} decides that; pull request {repair.pull}, which is not released, repairs it " \
           f"(case {repair.case})."  # fmt: skip


def _table(requests: Sequence[ShownRequest]) -> WholeTable:
    """Return the table of the requests that lost most, in the order of the log."""
    table = WholeTable()
    columns = [name for name in COLUMNS if any(name in one.numbers for one in requests)]
    table.add_column("request", no_wrap=True)
    for name in columns:
        table.add_column(COLUMNS[name], justify="right")
    costly = sorted(requests, key=lambda one: -span_of(one.numbers.get("lost", 0))[0])[:ROWS]
    for one in (one for one in requests if one in costly):
        style = "red" if span_of(one.numbers.get("lost", 0))[0] else ""
        table.add_row(one.name, *(_cell(one.numbers.get(name)) for name in columns), style=style)
    if len(requests) > ROWS:
        table.add_row(f"{len(requests) - ROWS} more with -v", *[""] * len(columns), style="dim")
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    low, high = span_of(value)
    return f"{low:,}" if low == high else f">= {low:,}" if high is None else f"{low:,}-{high:,}"
