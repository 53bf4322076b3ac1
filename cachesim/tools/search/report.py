"""Printed reports of campaigns and repairs.

A campaign: each cause with the case of its first failure, then the summary. A repair: the verdict, a table of changes
with the failures they cure and their cost, then each change with its case.
"""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable, as_typed, indented
from cachesim.tools.run.run_table import block_of_case

Data = dict[str, Any]
GAPS = 5                # ranges of conversations that are listed
OTHERS = 3             # alternative changes that are listed for a group


def fuzz_report(data: Data) -> RenderableType:
    """Return the report of a campaign, at most 80 columns wide. The failures of ``data`` must be ``explained``."""
    found = data["failures"]
    head = Text.assemble((data["profile"], "cyan"), f"  seed {data['seed']}, {data['examples']} conversations")
    if data["refused"]:
        head.append(f", {data['refused']} not modelled")
    more = [*([_against(data)] if "against" in data else []), *([_corpus(data["corpus"])] if "corpus" in data else [])]
    if not found:
        return Group(*more, head, Text(f"nothing found for {', '.join(data['properties'])}", "bold green"))
    groups = list(_groups(data))
    blocks = [_cause(i, what, members) for i, (what, members) in enumerate(groups, 1)]
    return Group(*blocks, *more, head, _table(groups), _verdict_of_search(data))


def _groups(data: Data) -> Iterator[tuple[str, list[Data]]]:
    """Yield the failures of each cause with the change that cures them, then each failure without a known cause."""
    found = data["failures"]
    for cause in data.get("cures", ()):
        change = f"{cause['field']}: {cause['old']} -> {cause['new']}"
        yield f"cured by {change}", [found[number] for number in cause["failures"]]
    for number in data.get("uncured", ()):
        yield "cured by no single rule change", [found[number]]
    for number in data.get("ungrouped", range(len(found))):
        yield "cause not searched", [found[number]]


def _verdict_of_search(data: Data) -> Text:
    text = counted(len(data["failures"]), "distinct failure")
    if "cures" in data:
        parts = [counted(len(data["cures"]), "cause")] if data["cures"] else []
        parts += [f"{len(data['uncured'])} cured by no single rule change"] if data["uncured"] else []
        parts += [f"{len(data['ungrouped'])} not grouped"] if data["ungrouped"] else []
        text += f": {', '.join(parts)}"
    return Text(text, "bold red")


def _corpus(data: Data) -> RenderableType:
    """Return the results of stored cases."""
    failing, unplayed = data["failing"], data["unplayed"]
    files = len({one["file"] for one in failing})
    lines = [Text(f"stored cases: {data['files']} run, {files} fail{'s' * (files == 1)}",
                  "bold red" if failing else "bold green")]  # fmt: skip
    lines += [Text(f"  {one['file']}: {one['property']}: {one['rule']}") for one in failing]
    lines += [Text(f"  not run: {one['why']}", "yellow") for one in unplayed]
    return Group(*lines)


def merge_report(data: Data) -> RenderableType:
    """Return the report of a merged campaign: number of files, conversations that are missing, failures."""
    head = Text(f"{_files(len(data['files']))}, {data['examples']:,} conversations", "bold")
    if data["left_out"]:
        head.append(f"; {_files(len(data['left_out']))} skipped (no further conversations)", "yellow")
    gaps = [(a, b) for (_, a), (b, _) in zip([[0, 0], *data["done"]], data["done"], strict=False) if a < b]
    missing = [Text("not run: " + ", ".join(f"{a} .. {b - 1}" for a, b in gaps[:GAPS])
                    + (f" and {len(gaps) - GAPS} more ranges" if len(gaps) > GAPS else ""), "yellow")]  # fmt: skip
    return Group(head, *(missing if gaps else []), fuzz_report(data))


def _files(n: int) -> str:
    return f"{n:,} file{'s' * (n != 1)}"


def _against(data: Data) -> Group:
    """Return the failures that only the other rule set has, and the evaluated tokens of both."""
    other = data["against"]
    cost = data["cost"]
    mended = data["mended"]
    head = Text.assemble("\nfailures only under ", (other, "cyan"), "" if mended else ": none")
    return Group(
        head, *([_mended(mended)] if mended else []),
        Text(f"tokens evaluated in {cost['requests']} requests: {_change(cost['mine'], cost['theirs'])}"),
        Text(f"in the {cost['right']} requests that both answer correctly: "
             f"{_change(cost['right_mine'], cost['right_theirs'])}"),
    )  # fmt: skip


def _change(mine: int, theirs: int) -> str:
    """Return a count and the other rule set's count."""
    share = f", {100 * (mine - theirs) / theirs:+.2f} %" if theirs else ""
    return f"{mine} (other: {theirs}{share})"


def _mended(found: list[Data]) -> WholeTable:
    table = _numbered("times")
    table.add_column("property", no_wrap=True)
    table.add_column("rule", overflow="fold")
    for i, one in enumerate(found, 1):
        table.add_row(str(i), str(one["times"]), Text(one["property"]), Text(one["rule"]))
    return table


def _table(groups: list[tuple[str, list[Data]]]) -> WholeTable:
    table = _numbered("times", "failures")
    table.add_column("cause", overflow="fold")
    for i, (what, members) in enumerate(groups, 1):
        times = sum(one["times"] for one in members)
        table.add_row(str(i), str(times), str(len(members)), Text(what))
    return table


def _numbered(*counts: str) -> WholeTable:
    """Return a table without borders whose first columns are a number and these counts."""
    table = WholeTable()
    for name in ("#", *counts):
        table.add_column(name, justify="right")
    return table


def _cause(number: int, what: str, failures: list[Data]) -> RenderableType:
    """Return the failures of a cause: the first with its chain of causes, the others with the rule that decided, each
    with the command that reproduces it."""
    failure, *others = failures
    left = "" if failure["shrunk"] or "line" not in failure else "   (not shrunk)"
    left = f"   (also in {failure['known']})" if "known" in failure else left
    head = Text.assemble(f"{number}  ", (f"{failure['property']}: {failure['text']}", "bold red"), (left, "yellow"))
    lines: list[RenderableType] = [indented(one, "dim") for one in failure["causes"]]
    lines = [block_of_case(failure)] if "line" in failure else lines
    for one in others:
        lines += [indented(f"also {one['property']}: {one['rule']}", "dim"), as_typed(one["command"])]
    return Group(head, indented(what, "cyan"), *lines, Text(""))


def repair_report(data: Data) -> RenderableType:
    """Return the report of a repair, at most 80 columns wide. Groups and uncured failures must be ``explained``."""
    where = "files" if data["files"] else f"seed {data['seed']}"
    n = counted(data["examples"], "conversation")
    head = Text.assemble((data["profile"], "cyan"), f"  {where}, {n}, {data['failing']} fail")
    if data["undecided"]:
        head.append(f", {data['undecided']} undecided")
    if not data["failing"]:
        return Group(head, Text(f"nothing to repair: no failure of {', '.join(data['properties'])}", "bold green"))
    parts: list[RenderableType] = [head, _verdict(data)]
    if data["groups"]:
        parts += [_changes(data["groups"]), _together(data)]
    parts += [_group(i, one) for i, one in enumerate(data["groups"], 1)]
    parts += _left(data["uncured"])
    return Group(*parts)


def _verdict(data: Data) -> Text:
    cured, left = data["failing"] - len(data["uncured"]), len(data["uncured"])
    text = f"single changes cure {cured} of {data['failing']}: {counted(len(data['groups']), 'cause')}"
    return Text(text + (f"; no single change cures {left}" if left else ""), "bold yellow" if left else "bold green")


def _changes(found: list[Data]) -> WholeTable:
    table = _numbered("cures", "tokens", "breaks")
    table.add_column("change", overflow="fold")
    for i, one in enumerate(found, 1):
        breaks = Text(str(one["broken"]), "red" if one["broken"] else "")
        change = Text(f"{one['field']}: {one['old']} -> {one['new']}")
        table.add_row(str(i), str(one["failures"]), _percent(one["cost"]), breaks, change)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:+.2f} %"


def _together(data: Data) -> Text:
    one = data["together"]
    kinds = ", ".join(f"{kind} {_percent(each['cost'])}" for kind, each in one["kinds"].items())
    price = f"{_percent(one['cost'])} ({kinds})" if kinds else "unknown"
    broken = f"{one['broken']} newly failing; tokens {price}\n"
    return Text(f"all changes together: {one['held']} of {data['failing']} fixed, {broken}")


def _group(number: int, group: Data) -> RenderableType:
    out = Text.assemble(f"{number}  ", (f"{group['field']}: {group['new']}", "bold"), f"  of {group['profile']}")
    found = [indented(f"{each['times']} {each['property']}: {each['rule']}", "dim", 3)
             for each in group["findings"][:OTHERS]]  # fmt: skip
    others = [indented(_other(alternative), "dim", 3) for alternative in group["others"][:OTHERS]]
    return Group(out, *found, *_case(group), *others, Text(""))


def _other(change: Data) -> str:
    breaks = f", breaks {change['broken']}" if change["broken"] else ""
    price = _percent(change["cost"])
    return f"{change['cures']} of them also cured by {change['field']}: {change['new']} ({price}{breaks})"


def _case(case: Data) -> list[RenderableType]:
    """Return the chain of causes of a conversation, or its number if it has no line."""
    if "line" not in case:
        return [indented(f"conversation {case['conversation']}", "", 3)]
    return [block_of_case(case)]


def _left(uncured: list[Data]) -> Iterator[RenderableType]:
    """Yield the failures that no single change cures, with the pairs of changes that cure them."""
    for one in uncured:
        yield Text(f"-  {one['property']}: {one['text']}", "bold red")
        yield from _case(one)
        for a, b in one["pairs"][:OTHERS]:
            yield indented(f"cured by {a['field']}: {a['new']} together with {b['field']}: {b['new']}", "dim", 3)
