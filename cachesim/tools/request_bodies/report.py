"""How do imported request bodies look? The result first, then causes with evidence; from data of ``import_bodies``."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.base.errors import counted, cut

Data = dict[str, Any]
SHOWN, CAUSES, NUMBERS = 40, 6, 12     # requests in the table, causes, numbers in a list; -v shows all requests
SEEN, SAME = 68, 14                    # columns of evidence, and of what both sides have before it
HEADS = ("#", "conv", "prompt", "common", "again", "reused")


def bodies_report(data: Data, out: str, everything: bool = False) -> RenderableType:
    """The result, the causes, a table of requests, what the simulator says, and what to do next."""
    worst = max(data["requests"], key=lambda one: (one["not_kept"] or 0, one["again"]), default=None)
    following = f"why {out} {worst['request']}" if out and worst is not None else "import ... -o case.toml"
    return Group(
        *_result(data), *_causes(data), Text(""), _table(data, everything), *_notes(data), *_simulation(data),
        Text(f"next: cachesim {following}", "dim"),
    )  # fmt: skip


def _tokens(data: Data, count: int) -> str:
    return f"{count:,}" if data["tokens_exact"] else f"~{count:,}"


def _result(data: Data) -> Iterator[Text]:
    """One sentence: what cannot be reused because prompts were changed."""
    total = counted(len(data["requests"]), "request")
    losing = len(data["losing"])
    if not losing:
        yield Text(f"no prompt was changed: {total}, {_tokens(data, data['tokens'])} prompt tokens", "bold green")
        return
    share = f"{100 * data['again'] / max(1, data['tokens']):.0f} %"
    text = f"{losing} of {total} cannot reuse more than {_tokens(data, data['most'])} tokens: "
    text += f"{_tokens(data, data['again'])} of {_tokens(data, data['tokens'])} prompt tokens ({share}) are evaluated "
    yield Text(f"{text}again because the prompt was changed", "bold red" if data["again"] * 10 > data["tokens"] else
               "bold yellow")  # fmt: skip


def _causes(data: Data) -> Iterator[Text]:
    costly = [one for one in data["causes"] if not one["harmless"]]
    for one in costly[:CAUSES]:
        detail = f" ({one['detail']})" if one["detail"] else ""
        part = f" in {one['where']}" if one["where"] else ""
        at = f"{one['path']} at character {one['character']:,}" if one["path"] else "at the end"
        again = f"{request_numbers(one['in_requests'])}: {_tokens(data, one['again'])} tokens again"
        yield Text.assemble(("cause  ", "bold"), f"{one['says']}{detail}{part} ({at}), {again}")
        seen = one["evidence"]
        if seen is not None:
            yield _seen(f"  {seen['previous']}", seen["text_common"], seen["text_before"], "green")
            yield _seen(f"  {seen['request']}", seen["text_common"], seen["text_after"], "red")
        if one["advice"]:
            yield Text.assemble(("try    ", "bold"), one["advice"])
    if len(costly) > CAUSES:
        yield Text(f"{counted(len(costly) - CAUSES, 'more cause')} in --json", "dim")


def request_numbers(numbers: list[int]) -> str:
    """Requests by their numbers, the first of them only where they are many."""
    more = ", ..." if len(numbers) > NUMBERS else ""
    return f"request{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers[:NUMBERS]))}{more}"


def _seen(number: str, same: str, rest: str, style: str) -> Text:
    """One side of the evidence: escaped, and cut."""
    before = _escaped(same)[-SAME:]
    shown = _escaped(rest)
    room = SEEN - len(before)
    shown = shown if len(shown) <= room else f"{shown[: room - 3]}..."
    return Text.assemble((f"{number:<7}", "dim"), (before, "dim"), (shown or "(nothing)", style))


def _escaped(text: str) -> str:
    """One line of ASCII: what a terminal obeys, and what it may not have, is spelled out."""
    return "".join(sign if sign.isascii() and sign.isprintable() else repr(sign)[1:-1] if not sign.isprintable()
                   else sign.encode("unicode_escape").decode() for sign in text)  # fmt: skip


def _table(data: Data, everything: bool) -> Table:
    table = Table(box=None, padding=(0, 1), header_style="dim")
    rows = data["requests"] if everything else data["requests"][:SHOWN]
    numbers = [[
        str(one["request"]), str(one["conversation"]), f"{one['tokens']:,}", f"{one['reusable']:,}",
        f"{one['again']:,}" if one["again"] else "-", "-" if one["simulated"] is None else f"{one['simulated']:,}",
    ] for one in rows]  # fmt: skip
    for name, *column in zip(HEADS, *numbers, strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(map(len, (name, *column))))
    table.add_column("compared with the request before it", overflow="ellipsis", no_wrap=True)
    for one, cells in zip(rows, numbers, strict=True):
        where = f" ({one['path']})" if one["path"] else ""
        table.add_row(*cells, Text(f"{one['cause']}{where}"), style="red" if one["again"] else "")
    if len(rows) < len(data["requests"]):
        table.add_row("...", *[""] * 5, Text(f"{len(data['requests']) - len(rows)} more with -v"))
    return table


def _notes(data: Data) -> Iterator[Text]:
    """What was known and what was not."""
    forms, conversations = " and ".join(data["forms"]), counted(data["conversations"], "conversation")
    how = "exact" if data["tokens_exact"] else "estimated"
    yield Text(f"{forms}, {conversations}; tokens {how} ({data['tokenizer']}), prompts rendered: {data['rendering']}",
               "dim")  # fmt: skip
    if data["skipped"]:
        yield Text(f"{counted(data['skipped'], 'file or line', 'files or lines')} without a request body", "dim")
    if len(data["models"]) > 1:
        yield Text(f"several models are asked, each has a cache of its own: {cut(', '.join(data['models']))}", "yellow")
    for matters, says in (("yes", "decides which cache is used"), ("perhaps", "may change the prompt: --template"),
                          ("no", "no effect on the cache")):  # fmt: skip
        names = dict.fromkeys(p["name"] for one in data["requests"] for p in one["parameters"]
                              if p["matters"] == matters)  # fmt: skip
        if names:
            yield Text(f"changed between requests: {cut(', '.join(names))} ({says})", "dim")


def _simulation(data: Data) -> Iterator[Text]:
    """The tokens of all prompts, by what became of them."""
    found = data["simulation"]
    if not found["played"]:
        yield Text("too large to be played", "dim")
        return
    yield Text.assemble(
        (f"simulated under {found['profile']}, model {found['model']}: ", "bold"),
        f"{_tokens(data, found['tokens'])} prompt tokens = {_tokens(data, found['reused'])} reused + "
        f"{_tokens(data, found['new_tokens'])} new + "
        f"{_tokens(data, found['again'])} again because the prompt was changed + "
        f"{_tokens(data, found['not_kept'])} again because the server did not have them",
    )  # fmt: skip
    if found["not_played"]:
        yield Text(f"{counted(found['not_played'], 'request')} at the end not played: too many for one run", "dim")

