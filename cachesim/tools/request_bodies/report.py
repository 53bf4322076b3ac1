"""Terminal report on imported request bodies, from the data of ``import_bodies``: the result first, then causes with
evidence."""

from __future__ import annotations

import re
from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted, cut
from cachesim.base.escaping import printable_line, shell_command, shell_word
from cachesim.base.layout import WholeTable, as_typed
from cachesim.tools.advise.report import saved_report

Data = dict[str, Any]
SHOWN, CAUSES, NUMBERS = 40, 6, 12     # maximum requests in the table (-v shows all), causes, numbers in a list
_NUMBERS = re.compile(r"\[\d+\]")
SEEN, SAME = 68, 14                    # columns of evidence, and of the common text before it
HEADS = ("#", "conv", "prompt", "common", "again", "reused")


def bodies_report(data: Data, out: str, everything: bool) -> RenderableType:
    """Return the report: result, causes, table of requests, simulation, and next command."""
    worst = max(data["requests"], key=lambda request: (request["not_kept"] or 0, request["again"]))
    following = f"cachesim why {shell_word(out)} {worst['request']}" if out else _import(data)
    next_command = [as_typed(following, "dim", "next: ")] if data["simulation"]["played"] else []
    saved = saved_report(data.get("saved"), _advise(data, out), "" if data["tokens_exact"] else "~")
    return Group(
        *saved, headline(data), *_causes(data), Text(""), _table(data, everything), *_notes(data), *_simulation(data),
        *next_command,
    )  # fmt: skip


def _import(data: Data) -> str:
    """Return the command that imports the bodies again, into a scenario file."""
    return shell_command(["cachesim", "import", *data["files"], *data["arguments"], "-o", "case.toml"])


def _advise(data: Data, out: str) -> str:
    """Return the command that prints all suggestions for the same prompts. ``advise`` takes one file, and neither a
    tokenizer nor a template: other imports need a scenario file."""
    is_alike = len(data["files"]) == 1 and not {"--tokenizer", "--template"} & {*data["arguments"]}
    if out:
        return shell_command(["cachesim", "advise", out])
    if is_alike:
        return shell_command(["cachesim", "advise", *data["files"], *data["arguments"]])
    return f"{_import(data)}, then cachesim advise case.toml"


def _tokens(data: Data, count: int) -> str:
    """Return a token count, marked with ~ if it is estimated."""
    return f"{count:,}" if data["tokens_exact"] else f"~{count:,}"


def headline(data: Data) -> Text:
    """Return the result in a sentence: the tokens that cannot be reused because prompts changed."""
    total = counted(len(data["requests"]), "request")
    losing = len(data["losing"])
    changing = sum(len(cause["in_requests"]) for cause in data["causes"] if not cause["harmless"])
    if changing and not losing:
        return Text(f"{changing} of {total} changed the previous prompt, without re-evaluation of what followed: "
                    f"{_tokens(data, data['tokens'])} prompt tokens", "bold yellow")  # fmt: skip
    if not losing:
        open_fields = list(_field_names(data, "perhaps", "unknown"))
        if open_fields:
            return Text(f"no changed texts: {total}, {_tokens(data, data['tokens'])} prompt tokens; not known whether "
                        f"changed fields change the prompt: {cut(', '.join(open_fields))}", "bold yellow")  # fmt: skip
        return Text(f"no changed prompts: {total}, {_tokens(data, data['tokens'])} prompt tokens", "bold green")
    share = f"{100 * data['again'] / max(1, data['tokens']):.0f} %"
    text = f"{losing} of {total} cannot reuse more than {_tokens(data, data['most'])} tokens: "
    text += f"{_tokens(data, data['again'])} of {_tokens(data, data['tokens'])} prompt tokens ({share}) are "
    return Text(f"{text}re-evaluated because the prompt changed", "bold red" if data["again"] * 10 > data["tokens"] else
                "bold yellow")  # fmt: skip


def _causes(data: Data) -> Iterator[Text]:
    """Yield the most expensive causes with evidence and advice."""
    costly = [cause for cause in data["causes"] if not cause["harmless"]]
    for cause in costly[:CAUSES]:
        detail = f" ({cause['detail']})" if cause["detail"] else ""
        part = f" in {cause['where']}" if cause["where"] else ""
        at = f"{cause['path']} at character {cause['character']:,}" if cause["path"] else "at the end"
        again = f"{request_numbers(cause['in_requests'])}: {_tokens(data, cause['again'])} tokens re-evaluated"
        yield Text.assemble(("cause  ", "bold"), f"{cause['says']}{detail}{part} ({at}), {again}")
        seen = cause["evidence"]
        if seen is not None:
            yield _seen(f"  {seen['previous']}", seen["text_common"], seen["text_before"], "green")
            yield _seen(f"  {seen['request']}", seen["text_common"], seen["text_after"], "red")
        if cause["advice"]:
            yield Text.assemble(("try    ", "bold"), cause["advice"])
    if len(costly) > CAUSES:
        yield Text(f"{counted(len(costly) - CAUSES, 'more cause')} in --json", "dim")


def request_numbers(numbers: list[int]) -> str:
    """Return a list of request numbers as text, truncated if it is long."""
    more = ", ..." if len(numbers) > NUMBERS else ""
    return f"request{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers[:NUMBERS]))}{more}"


def _seen(number: str, same: str, rest: str, style: str) -> Text:
    """Return a side of the evidence, escaped and truncated."""
    before = _escaped(same)[-SAME:]
    shown = _escaped(rest)
    room = SEEN - len(before)
    shown = shown if len(shown) <= room else f"{shown[: room - 3]}..."
    return Text.assemble((f"{number:<7}", "dim"), (before, "dim"), (shown or "(nothing)", style))


def _escaped(text: str) -> str:
    """Return a text as a line of printable ASCII: control and non-ASCII characters are escaped."""
    return printable_line(text).encode("ascii", "backslashreplace").decode("ascii")


def _table(data: Data, everything: bool) -> WholeTable:
    """Return the table of requests; -v shows all."""
    table = WholeTable()
    rows = data["requests"] if everything else data["requests"][:SHOWN]
    numbers = [[
        str(row["request"]), str(row["conversation"]), f"{row['tokens']:,}", f"{row['reusable']:,}",
        f"{row['again']:,}" if row["again"] else "-", "-" if row["simulated"] is None else f"{row['simulated']:,}",
    ] for row in rows]  # fmt: skip
    heads = HEADS if data["simulation"]["played"] else HEADS[:-1]
    numbers = [cells[: len(heads)] for cells in numbers]
    for name in heads:
        table.add_column(name, justify="right")
    table.add_column("compared with the previous request", overflow="fold")
    for row, cells in zip(rows, numbers, strict=True):
        where = f" ({row['path']})" if row["path"] else ""
        table.add_row(*cells, Text(f"{row['cause']}{where}"), style="red" if row["again"] else "")
    if len(rows) < len(data["requests"]):
        table.add_row("...", *[""] * (len(heads) - 1), Text(f"{len(data['requests']) - len(rows)} more with -v"))
    return table


def _notes(data: Data) -> Iterator[Text]:
    """Yield notes on the input: APIs, tokenizer, template, and changed parameters."""
    forms, conversations = " and ".join(data["forms"]), counted(data["conversations"], "conversation")
    how = "exact" if data["tokens_exact"] else "estimated"
    yield Text(f"{forms}, {conversations}; tokens {how} ({data['tokenizer']}), prompts rendered: {data['rendering']}",
               "dim")  # fmt: skip
    if data["skipped"]:
        yield Text(f"{counted(data['skipped'], 'file or line', 'files or lines')} without a request body", "dim")
    if data["media"]:
        media = counted(data["media"], "image, sound or file", "images, sounds and files")
        yield Text(f"{media}: compared by a digest; their own tokens are not counted", "dim")
    if len(data["models"]) > 1:
        yield Text(f"several models, each with a separate cache: {cut(', '.join(data['models']))}", "yellow")
    for matters, says in (("yes", "selects the cache"), ("perhaps", "may change the prompt: --template"),
                          ("unknown", "not known whether it changes the prompt"),
                          ("no", "no effect on the cache")):  # fmt: skip
        names = list(_field_names(data, matters))
        if names:
            yield Text(f"changed between requests: {cut(', '.join(names))} ({says})", "dim")


def _field_names(data: Data, *matters: str) -> Iterator[str]:
    """Yield the names of changed fields that matter so, each once; the numbers of messages and blocks are left out."""
    names = (_NUMBERS.sub("[]", field["name"]) for request in data["requests"] for field in request["parameters"]
             if field["matters"] in matters)  # fmt: skip
    yield from dict.fromkeys(names)


def _simulation(data: Data) -> Iterator[Text]:
    """Yield the tokens of all prompts, split into reused, new, changed and not kept."""
    found = data["simulation"]
    if not found["played"]:
        yield Text(f"not simulated: {found['limit']}", "yellow")
        return
    yield Text.assemble(
        (f"simulated under {found['profile']}, model {found['model']}: ", "bold"),
        f"{_tokens(data, found['tokens'])} prompt tokens = {_tokens(data, found['reused'])} reused + "
        f"{_tokens(data, found['new_tokens'])} new + "
        f"{_tokens(data, found['again'])} re-evaluated because the prompt changed + "
        f"{_tokens(data, found['not_kept'])} re-evaluated because the server did not keep them",
    )  # fmt: skip
    if found["adapters"]:
        yield Text(found["adapters"], "dim")
    if found["foreign"]:
        numbers = request_numbers([row["request"] for row in data["requests"] if row["foreign"]])
        said = f"{_tokens(data, found['foreign'])} reused tokens of {numbers}"
        if found["adapters_assumed"]:
            yield Text(f"{said}: undecided whether they were computed under the adapters asked for", "yellow")
        else:
            yield Text(f"{said} were computed under other adapters: wrong", "bold red")
    if found["not_played"]:
        yield Text(f"{counted(found['not_played'], 'request')} at the end not simulated: {found['limit']}", "dim")

