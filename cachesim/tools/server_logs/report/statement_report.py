"""Sections of the report that rest on the log alone: headline, causes, what its lines say, what follows from them."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import printable_line
from cachesim.base.layout import WholeTable
from cachesim.scenarios.known_repairs import repair_of_rule
from cachesim.tools.server_logs.facts.statements import ENDED, TOTAL

Said = Mapping[str, Any]
"""Statement as in ``import --json``."""
SOME = 1, None               # lost tokens whose number the log does not limit
WORTH = 100                  # less than 1/WORTH of the prompt tokens may be lost: the headline does not name the limit
CAUSES, ROWS, KINDS, LINES, FEW = 2, 3, 6, 4, 1
"""Causes, requests, kinds of lines, line numbers of a proof and of a kind that are shown without -v."""
COLUMNS = {"n_tokens": "prompt", "held": "held", "lcp": "common", "cache_n": "reused", "prompt_n": "evaluated",
           "lost": "lost", "end": "after"}  # fmt: skip
"""Columns of the table of requests, by the name of the number."""


class ShownRequest(NamedTuple):
    """Numbers of a request that follow from the log: its name, the number of its first line, and ranges by name."""

    name: str
    line: int
    numbers: Mapping[str, Any]


def shown_requests(statements: Sequence[Said]) -> list[ShownRequest]:
    """Return the requests with derived numbers, in the order of the log."""
    numbers: dict[Any, dict[str, Any]] = {}
    first: dict[Any, int] = {}
    for said in statements:
        if said["kind"] == "follows" and (said["what"] == "request" or "lost" in said["numbers"]):
            key = request_key(said)
            first[key] = min(first.get(key, said["lines"][0]), said["lines"][0])
            found = numbers.setdefault(key, {})
            for name, value in said["numbers"].items():
                if said["what"] == "request" or (name == "lost" and name not in found):
                    found[name] = value
    return [ShownRequest(request_name(key), first[key], found) for key, found in sorted(
        numbers.items(), key=lambda pair: first[pair[0]])]  # fmt: skip


def request_key(said: Said) -> tuple[Any, Any, Any, int | None]:
    """Return what identifies a request: server run, slot and task, else its first line."""
    return said["run"], said["slot"], said["task"], said["lines"][0] if said["task"] is None else None


def request_name(key: tuple[Any, Any, Any, int | None]) -> str:
    """Return the name of a request in reports."""
    run, slot, task, line = key
    return f"{f'run {run + 1}, ' if run else ''}slot {slot}, task {task}" if task is not None else f"line {line}"


def headline(statements: Sequence[Said]) -> Text:
    """Return the result in a sentence, from what the log shows alone."""
    requests = shown_requests(statements)
    spans = [_span(one.numbers["lost"]) for one in requests if "lost" in one.numbers]
    lost = [span for span in spans if span[0] > 0]
    counts = [(one.numbers["prompt_n"], one.numbers["n_tokens"]) for one in requests
              if all(isinstance(one.numbers.get(name), int) for name in ("prompt_n", "n_tokens"))]  # fmt: skip
    evaluated, tokens = sum(pair[0] for pair in counts), sum(pair[1] for pair in counts)
    share = f"{100 * evaluated / max(1, tokens):.0f} % of {tokens:,} prompt tokens evaluated"
    share = f" ({share} in {counted(len(counts), 'request')} with known lengths)" if counts else ""
    if lost:
        exact = all(low == high for low, high in lost)
        total = sum(low for low, _ in lost)
        again = f"{'' if exact else 'at least '}{total:,} token{'s' * (total != 1)} of a common prefix again"
        if all(span == SOME for span in lost):
            again = "tokens of a common prefix again, the log does not show how many"
        return Text(f"{counted(len(lost), 'request')} evaluated {again}{share}.", "bold red")
    most = _most_lost_of(requests)
    if most == 0:
        return Text(f"No tokens of a common prefix were evaluated again{share}.", "bold green")
    if most is not None and most * WORTH < tokens:
        return Text(f"The log shows no token of a common prefix that was evaluated again{share}.", "bold green")
    if not requests:
        totals = (printable_line(said["says"]) for said in statements if said["what"] == TOTAL)
        first = next(totals, "the log shows no lengths of a request")
        return Text(f"{first[0].upper()}{first[1:]}.", "bold yellow")
    return Text(f"The log does not show whether tokens of a common prefix were evaluated again{share}.", "bold yellow")


def _most_lost_of(requests: Sequence[ShownRequest]) -> int | None:
    """Return the most tokens of common prefixes that these requests can have evaluated again, None if the log sets no
    limit or shows no request."""
    most = [most_again(one.numbers) for one in requests]
    return sum(again for again in most if again is not None) if most and None not in most else None


def most_again(numbers: Mapping[str, Any]) -> int | None:
    """Return the most tokens of the common prefix that a request can have evaluated again, None if the log sets no
    limit. ``numbers``: those of the request, as in ``import --json``. Every request evaluates the last token of its
    prompt, which is not one of them."""
    evaluated = _span(numbers["prompt_n"])[1] if "prompt_n" in numbers else None
    limits = [] if evaluated is None else [evaluated - 1]
    if "lcp" in numbers and "cache_n" in numbers:
        common, reused = _span(numbers["lcp"])[1], _span(numbers["cache_n"])[0]
        prompt = _span(numbers["n_tokens"])[1] if "n_tokens" in numbers else None
        ends = [end for end in (common, None if prompt is None else prompt - 1) if end is not None]
        limits += [min(ends) - reused] if common is not None else []
    return max(0, min(limits)) if limits else None


def _span(value: Any) -> tuple[int, int | None]:
    return (value, value) if isinstance(value, int) else (value[0] or 0, value[1])


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
            also = "" if everything or len(group) == 1 else f"; likewise {counted(len(group) - 1, 'request')}"
            says = "; ".join(printable_line(said["says"]) for said in found)
            lines = _lines(sorted({line for said in found for line in said["lines"]}), everything)
            label = "Cause: " if any("lost" in said["numbers"] for said in found) else "Warning: "
            yield Text.assemble((label, "bold"), f"{request_name(request_key(found[0]))}: {says}, {lines}{also}.")


def _most_lost(causes: Sequence[Said]) -> int:
    """Return the tokens that the costliest of these causes lost at least."""
    return max(_span(said["numbers"].get("lost", 0))[0] for said in causes)


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
    any_lost = any(_span(one.numbers.get("lost", 0))[0] for one in requests)
    for said in (said for said in found if said["what"] == TOTAL):
        yield Text(f"{printable_line(said['says'])}, {_lines(said['lines'])}")
        if any_lost and (repair := repair_text(said)):      # else it is one of the first lines
            yield Text(repair)
    if not any_lost and (most := _most_lost_of(requests)):
        yield Text(f"at most {counted(most, 'token')} of common prefixes evaluated again")
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
    costly = sorted(requests, key=lambda one: -_span(one.numbers.get("lost", 0))[0])[:ROWS]
    for one in (one for one in requests if one in costly):
        style = "red" if _span(one.numbers.get("lost", 0))[0] else ""
        table.add_row(one.name, *(_cell(one.numbers.get(name)) for name in columns), style=style)
    if len(requests) > ROWS:
        table.add_row(f"{len(requests) - ROWS} more with -v", *[""] * len(columns), style="dim")
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    low, high = _span(value)
    return f"{low:,}" if low == high else f">= {low:,}" if high is None else f"{low:,}-{high:,}"
