"""Reports of ``diff``: differences between two profiles on a scenario, and totals over many scenarios."""

from __future__ import annotations

from typing import Any, Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import FittedRenderable, WholeTable, indented, lean_table, shortened
from cachesim.engines.registry import rules_of
from cachesim.engines.shared.rule_set import DESCRIPTION_FIELDS, LOG_FIELDS
from cachesim.events import Decided
from cachesim.judging.judged_run import Run
from cachesim.judging.outcomes import differences, differences_of_engines, observed
from cachesim.judging.reproduce_command import flags_line
from cachesim.judging.request_events import group_of, owned_events
from cachesim.judging.run_data import run_data
from cachesim.judging.verdict_text import sentence, style_of, verdict_line
from cachesim.judging.verdict_words import OK
from cachesim.tools.run.observed_differences import differing_data, differing_text
from cachesim.tools.run.run_table import predicted_lines, short_verdict

Data = dict[str, Any]
SHOWN = 8                # rules listed without -v


def diff_data(a: Run, b: Run, log: bool = False) -> Data:
    """Return both runs, the observables that differ (``log``: those of the log, too), the rules that differ, and the
    first decision that differs; None for rules and decisions of two engines, which cannot be compared. ``stored``:
    final prompt-cache entries, each with its length and the request whose conversation it holds (-1 = an older
    conversation)."""
    alike = a.scenario.engine == b.scenario.engine
    return {
        "scenario": a.scenario.id,
        "title": a.scenario.title,
        "a": run_data(a),
        "b": run_data(b),
        "first": _first(a, b) if alike else None,
        "observed": observed_data(a, b, log),
        "rules": _rules(a.profile, b.profile, log) if alike else None,
        "stored": {"a": _stored(a), "b": _stored(b)},
    }


def observed_data(a: Run, b: Run, log: bool) -> list[Data]:
    """Return the requests that differ for a client, or with ``log`` in the log, each with the observables that differ,
    the most important first."""
    compare = differences if a.scenario.engine == b.scenario.engine else differences_of_engines
    found = [(i, compare(observed(a, i, log), observed(b, i, log))) for i in range(len(a.requests))]
    return [{"request": i, "differs": differing_data(some)} for i, some in found if some]


def _rules(a: str, b: str, log: bool) -> Data:
    """Return the number of rule-set fields and the fields that differ; ``log``: with fields that only affect it."""
    rules_a, rules_b = rules_of(a), rules_of(b)
    hidden = DESCRIPTION_FIELDS if log else DESCRIPTION_FIELDS | LOG_FIELDS
    count = sum(name.partition(".")[0] not in hidden for name in rules_a.fields())
    return {"count": count, "changes": [change._asdict() for change in rules_a.changes(rules_b, log)]}


def _stored(run: Run) -> list[Data]:
    return [{"tokens": n, "request": request} for request, n in run.stored]


def _first(a: Run, b: Run) -> Data | None:
    """Return the first decision that differs, with its request. Of requests sent together each is compared with itself,
    and the decisions without a slot, which may concern each of them (``together``), with each other."""
    steps, number = a.scenario.steps, 0
    while number < len(a.requests):
        group = group_of(steps, number)
        found = [pair for owner in (*group, None) if (pair := _first_of(a, b, group, owner)) is not None]
        if found:
            _, owner, x, y = min(found, key=lambda pair: pair[0])
            return {"request": number if owner is None else owner, "a": _decision_data(x), "b": _decision_data(y),
                    "together": list(group) if owner is None and len(group) > 1 else []}  # fmt: skip
        number = group.stop
    return None


def _first_of(a: Run, b: Run, group: range, owner: int | None) -> tuple[int, int | None, Decided, Decided] | None:
    """Return the first decision of an owner that differs: its place in the log of ``a``, the owner, and both."""
    for (place, x), (_, y) in zip(_decided(a, group, owner), _decided(b, group, owner), strict=False):
        if (_family(x) != _family(y) or repr(x.value) != repr(y.value)) and (_has_effect(x) or _has_effect(y)):
            return place, owner, x, y
    return None


def _decided(run: Run, group: range, owner: int | None) -> Iterator[tuple[int, Decided]]:
    """Yield the decisions of a request, or those without a slot, with their places in the log. A request that is sent
    alone owns all decisions."""
    alone = group.start if len(group) == 1 else -1
    events = owned_events(run.log, group, run.launches)
    for place, (event, whose) in enumerate(events):
        if isinstance(event, Decided) and (alone if alone >= 0 else whose) == owner:
            yield place, event


def _family(event: Decided) -> str:
    return event.rule.split(".")[0]


def _has_effect(event: Decided) -> bool:
    return bool(sentence(event.rule, event.value, event.because))


def _decision_data(event: Decided) -> dict[str, str]:
    return {"rule": event.rule, "says": sentence(event.rule, event.value, event.because, every=True)}


def diff_report(data: Data, verbose: int = 0) -> RenderableType:
    """Return the requests that differ (all with ``verbose``), the verdicts under both profiles, the totals, the final
    prompt caches, the rules that differ, and the first decision that differs."""
    title: list[RenderableType] = [] if data["scenario"] == "try" else [Text(data["title"])]
    title += _flags(data)
    pairs = list(zip(data["a"]["requests"], data["b"]["requests"], strict=True))
    differ = {one["request"] for one in data["observed"]}
    parts = [differing_line(data["observed"], len(pairs)), *_verdicts(data), *_requests(pairs, differ, verbose)]
    parts += [*_observed(data["observed"], pairs, verbose), *_uncounted(pairs), *_totals(data)]
    if data["rules"] is None:
        rest: list[RenderableType] = [Text("rules and decisions of two engines are not compared", "dim")]
    else:
        rest = [*_stores(data["stored"]), *_changes(data["rules"], verbose), *_decision(data["first"])]
    return Group(Text(data["scenario"], "bold"), *title, *parts, *rest)


def _flags(data: Data) -> Iterator[RenderableType]:
    """Yield the server flags, only once if they are equal under both profiles."""
    flags_a, flags_b = data["a"]["flags"], data["b"]["flags"]
    if flags_a == flags_b:
        yield from flags_line(flags_a)
        return
    for name, flags in (("A", flags_a), ("B", flags_b)):
        yield from (Text.assemble(f"{name} ", line) for line in flags_line(flags))


def _verdicts(data: Data) -> Iterator[RenderableType]:
    for name, run in (("A", data["a"]), ("B", data["b"])):
        yield Text.assemble(f"{name} ", (run["profile"], "cyan"), "  ", verdict_line(run))
        for request in run["requests"]:
            if request["verdict"] != OK.name:
                yield indented(f"request {request['i']}: {request['fault']}", style_of(request["verdict"]))
                yield from (indented(f"request {request['i']} {read}", "", 4) for read in request["read_instead"][:1])
        yield from predicted_lines(run["predicted"])


def _changes(rules: Data, verbose: int) -> Iterator[RenderableType]:
    """Yield the number of rules that differ and a line for each of them."""
    found = rules["changes"]
    verb = "differs" if len(found) == 1 else "differ"
    yield Text(f"{len(found)} of {counted(rules['count'], 'rule')} {verb}", "bold")
    shown = found if verbose else found[:SHOWN]
    for change in shown:
        source = f" ({change['source']})" if change["source"] else ""
        yield indented(f"{change['field']}: {change['old']} -> {change['new']}{source}")
    if len(shown) < len(found):
        yield indented(f"and {len(found) - len(shown)} more (-v, or cachesim profiles diff)", "dim")


def differing_line(differ: Sequence[Data], n: int) -> Text:
    """Return how many of ``n`` requests differ, and which."""
    found = [str(one["request"]) for one in differ]
    if not found:
        return Text(f"no request differs (of {n})", "green")
    return Text(f"{len(found)} of {counted(n, 'request')} {'differs' if len(found) == 1 else 'differ'}: "
                f"{', '.join(found)}", "bold")  # fmt: skip


def _requests(pairs: Sequence[tuple[Data, Data]], differ: Collection[int], verbose: int) -> list[RenderableType]:
    shown = [pair for pair in pairs if verbose or pair[0]["i"] in differ]
    return [FittedRenderable(lambda width: _table(shown, width))] if shown else []


IN_TABLE = frozenset({"cache_n", "prompt_n", "equal_cold"})
"""Observables that a row of the table shows."""


def _observed(differ: Sequence[Data], pairs: Sequence[tuple[Data, Data]], verbose: int) -> Iterator[RenderableType]:
    """Yield a line for each request with other observables than the table shows: the first of them; all if
    ``verbose``."""
    for one in differ:
        found = [seen for seen in one["differs"] if verbose or seen["observable"] not in IN_TABLE]
        if verbose:
            yield from (indented(f"request {one['request']} {differing_text([seen])}", "", 2) for seen in found)
        elif len(found) == len(one["differs"]):
            yield indented(f"request {one['request']} {differing_text(found)}", "", 2)


def _uncounted(pairs: Sequence[tuple[Data, Data]]) -> Iterator[RenderableType]:
    """Yield the last request after which the memory that the server does not count differs."""
    differ = [(x, y) for x, y in pairs if x["uncounted"] != y["uncounted"]]
    for x, y in differ[-1:]:
        yield Text(f"uncounted memory after request {x['i']}: {x['uncounted']:,} -> {y['uncounted']:,} bytes")


def _table(pairs: Sequence[tuple[Data, Data]], width: int) -> WholeTable:
    table = lean_table(width)
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    for name in ("prompt", "reused", "evaluated"):
        table.add_column(name, justify="right")
    table.add_column("answer")
    table.add_column("reason")
    for x, y in pairs:
        answers = [Text(short_verdict(request["verdict"]), style_of(request["verdict"])) for request in (x, y)]
        both = x["verdict"] == y["verdict"]
        table.add_row(
            str(x["i"]), Text(shortened(x["text"], 40)), str(x["prompt"]), _two(x["cache_n"], y["cache_n"]),
            _two(x["prompt_n"], y["prompt_n"]), answers[0] if both else Text.assemble(answers[0], " -> ", answers[1]),
            _two(x["reason"], y["reason"]),
        )  # fmt: skip
    return table


def _two(a: object, b: object) -> str:
    """Return a value that is equal under both profiles, or "a -> b"."""
    return f"{a}" if a == b else f"{a} -> {b}"


def percent(a: int, b: int, digits: int = 1) -> str:
    """Return the change from a to b in percent, in brackets; "" if a is 0."""
    return f" ({100 * (b - a) / a:+.{digits}f} %)" if a else ""


def _totals(data: Data) -> list[RenderableType]:
    a, b = (sum(request["prompt_n"] for request in data[name]["requests"]) for name in ("a", "b"))
    again = (sum(charge["tokens"] for charge in data[name]["lost"]) for name in ("a", "b"))
    return [Text(f"evaluated in all: {a} -> {b} tokens{percent(a, b)}; "
                 f"re-evaluated: {' -> '.join(map(str, again))}")]  # fmt: skip


def _stores(stored: Data) -> Iterator[RenderableType]:
    """Yield the final prompt caches if they differ."""
    if stored["a"] != stored["b"]:
        yield Text("prompt cache at the end")
        for name in ("a", "b"):
            entries = ", ".join(f"{entry['tokens']} tokens of {_owner(entry)}" for entry in stored[name]) or "empty"
            yield indented(f"{name.upper()} {entries}")


def _owner(entry: Data) -> str:
    return "an older conversation" if entry["request"] < 0 else f"request {entry['request']}"


def _decision(first: Data | None) -> Iterator[RenderableType]:
    if first is None:
        yield Text("all decisions with an effect are equal", "green")
        return
    first_of, *others = first["together"] or [first["request"]]
    where = f"requests {first_of} to {others[-1]}, sent together" if others else f"request {first_of}"
    yield Text(f"first difference at {where}", "yellow")
    for name in ("a", "b"):
        yield indented(f"{name.upper()} {first[name]['rule']}: {first[name]['says']}", "yellow")
