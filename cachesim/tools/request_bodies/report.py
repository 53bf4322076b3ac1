"""Terminal report on imported request bodies, from the data of ``import_bodies``: the result first, then causes with
evidence."""

from __future__ import annotations

import re
from typing import Any, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted, cut
from cachesim.base.escaping import printable_line, shell_command, shell_word
from cachesim.base.layout import WholeTable, as_typed
from cachesim.judging.reproduce_command import assumption
from cachesim.tools.request_bodies.ollama_bodies import FORMS, OLLAMA_GENERATE

Data = dict[str, Any]
SHOWN, CAUSES, NUMBERS = 40, 6, 12     # maximum requests in the table (-v shows all), causes, numbers in a list
_NUMBERS = re.compile(r"\[\d+\]")
SEEN, SAME = 68, 14                    # columns of evidence, and of the common text before it
HEADS = ("#", "conv", "prompt", "common", "again", "reused")


def bodies_report(
    data: Data, out: str, everything: bool, compared: Sequence[RenderableType] = ()
) -> RenderableType:
    """Return the report: result, causes, table of requests, simulation, and next command. ``compared``: tables of
    several rule sets."""
    worst = max(data["requests"], key=lambda request: (request["not_kept"] or 0, request["again"]))
    following = f"cachesim why {shell_word(out)} {worst['request']}" if out else _import(data)
    next_command = [as_typed(following, "dim", "next: ")] if data["simulation"]["played"] else []
    return Group(
        *_first_lines(data), *_refused(data), *_causes(data), *_other_change(data, out), *_reported(data), Text(""),
        *compared, _table(data, everything), *_notes(data), *_simulation(data), *next_command,
    )  # fmt: skip


def _first_lines(data: Data) -> list[Text]:
    """Return the costliest cause with its cure, if there is one, and the tokens that it costs."""
    return [first_line(data), *([headline(data)] if _worst(data) else [])]


def _refused(data: Data) -> Iterator[Text]:
    """Yield the reasons why the server answers requests with an error, each with the requests that it concerns."""
    reasons: dict[str, list[int]] = {}
    for row in data["requests"]:
        if row["refusal"]:
            reasons.setdefault(row["refusal"], []).append(row["request"])
    for reason, numbers in reasons.items():
        server = "Ollama" if FORMS.issuperset(data["forms"]) else data["simulation"]["profile"]
        yield Text(f"{server} answers {request_numbers(numbers)} with an error: "
                   f"{printable_line(reason)} (compared as sent)", "yellow")  # fmt: skip


def _worst(data: Data) -> Data | None:
    """Return the costliest cause, None if no prompt was changed."""
    return next((cause for cause in data["causes"] if not cause["harmless"]), None)


def first_line(data: Data) -> Text:
    """Return the first line: the costliest cause, its place, its cure and what that saves; without a change of a
    prompt, the result."""
    cause, cure = _worst(data), data["cure"]
    if cause is None:
        return Text.assemble(headline(data), _not_kept(data))
    says, style = cause_text(data), str(headline(data).style)
    if cure is None:
        return Text(f"{says}: {_tokens(data, cause['again'])} tokens re-evaluated.", style)
    return Text(f"{says}: {cure['advice']}. {_saving(data, cure)}.", style)


def cause_text(data: Data) -> str:
    """Return the costliest cause and its place, "" if no prompt was changed."""
    cause = _worst(data)
    return f"{cause['says'][:1].upper()}{cause['says'][1:]}{_where(cause)}" if cause is not None else ""


def _saving(data: Data, cure: Data) -> str:
    """Return what a cure saves, and what that rests on."""
    if cure["saved"] is None:
        return "What this saves is not simulated here"
    if cure["saved"] <= 0:
        return f"Simulated, this saves nothing, {_basis(data)}{_with_other_model(data, cure)}"
    count = cure["first_requests"]
    some = "" if count == len(data["requests"]) else f" of the first {counted(count, 'request')}"
    tokens = f"{_tokens(data, cure['saved'])} of {_tokens(data, cure['evaluated'])} evaluated tokens{some}"
    share = _share(cure["saved"], cure["evaluated"])
    return f"Simulated, this saves {tokens} ({share}), {_basis(data)}{_with_other_model(data, cure)}"


def _basis(data: Data) -> str:
    """Return the rule set and the model of the simulation, and which of them are assumed."""
    found = data["simulation"]
    engine = f"assuming {found['profile']}" if "profile" in found["unnamed"] else f"under {found['profile']}"
    if "model" not in found["unnamed"]:
        return f"{engine}{' with' if 'profile' in found['unnamed'] else ','} model {found['model']}"
    assuming = "" if "profile" in found["unnamed"] else "assuming "
    return f"{engine} and {assuming}a hybrid model ({found['model']})"


def _with_other_model(data: Data, cure: Data) -> str:
    """Return what the cure saves with the model that the assumed model is compared with."""
    other = cure["other_model"]
    if other is None:
        return ""
    if other["saved"] <= 0:
        return f"; nothing with a dense model ({other['model']})"
    share = _share(other["saved"], other["evaluated"])
    if share == _share(cure["saved"], cure["evaluated"]):
        return f"; the same share with a dense model ({other['model']})"
    return f"; {share} with a dense model ({other['model']})"


def _not_kept(data: Data) -> str:
    """Return the tokens that the server did not keep although no prompt changed, and what that rests on."""
    found = data["simulation"]
    if not found["played"] or found["not_kept"] * 100 < found["tokens"]:
        return ""
    other = found["other_not_kept"]
    dense = "" if other is None else f"; {_tokens(data, other)} with a dense model"
    return f"; the server does not keep {_tokens(data, found['not_kept'])} of them, {_basis(data)}{dense}"


def _share(tokens: int, of: int) -> str:
    return f"{100 * tokens / max(1, of):.0f} %"


def _where(cause: Data) -> str:
    """Return the part of the prompt, the detail and the place of a cause: requests, field and character."""
    part = f" in {cause['where']}" if cause["where"] else ""
    detail = f"{cause['detail']}; " if cause["detail"] else ""
    at = f"{cause['path']} at character {cause['character']:,}" if cause["path"] else "at the end"
    return f"{part} ({detail}{request_numbers(cause['in_requests'])}: {at})"


def _other_change(data: Data, out: str) -> Iterator[RenderableType]:
    """Yield another change that saves more than the cure, and the command that prints all suggestions."""
    saved, cure = data.get("saved"), data["cure"]
    if not data["simulation"]["played"] or saved is None:
        return
    own = (cure or {}).get("saved") or 0
    if not saved["too_slow"] and saved["saved"] > own:
        who = "the client" if saved["client"] else "flags"
        more = "more" if own > 0 else "tokens"
        tokens = f"{_tokens(data, saved['saved'])} of {_tokens(data, saved['evaluated'])} evaluated tokens"
        yield Text(f"another change of {who} saves {more}, {tokens} ({saved['share']:.0%}): "
                   f"{saved['text'].removeprefix('client: ')}")  # fmt: skip
    yield as_typed(_advise(data, out), "dim", "all suggestions: ")


def _reported(data: Data) -> Iterator[Text]:
    """Yield how the replies compare with the simulation, and what would explain the first difference."""
    found = data["reported"]
    if found is None:
        return
    first = next((row for row in data["requests"] if row["request"] == found["first_different"]), None)
    if first is None:
        how = "as" if data["tokens_exact"] else "about as many as"
        counts = f"{found['equal']} of {found['with_counts']}"
        if found["equal"]:
            yield Text(f"reused tokens in the replies: {how} simulated ({counts})", "dim")
        return
    others = len(found["different"]) - 1
    more = f"; {counted(others, 'other request')} too" if others else ""
    yield Text(f"request {first['request']} reused {first['stated']:,} tokens by its reply, "
               f"{_tokens(data, first['simulated'])} are expected{more}", "bold yellow")  # fmt: skip
    for says in found["possible"]:
        yield Text.assemble(("maybe  ", "bold"), says)


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


def _by_estimate(data: Data) -> str:
    """Return that a refusal follows from estimated lengths, if it does."""
    return "" if data["tokens_exact"] else ", if the estimated lengths are right"


def headline(data: Data) -> Text:
    """Return the result in a sentence: the tokens that cannot be reused because prompts changed."""
    total = counted(len(data["requests"]), "request")
    losing = len(data["losing"])
    changing = sum(len(cause["in_requests"]) for cause in data["causes"] if not cause["harmless"])
    if changing and not losing:
        return Text(f"{changing} of {total} changed the end of the previous prompt, so that only new text follows the "
                    f"change: {_tokens(data, data['tokens'])} prompt tokens", "bold yellow")  # fmt: skip
    if not losing:
        open_fields = list(_field_names(data, "perhaps", "unknown"))
        if open_fields:
            return Text(f"no changed texts: {total}, {_tokens(data, data['tokens'])} prompt tokens; not known whether "
                        f"changed fields change the prompt: {cut(', '.join(open_fields))}", "bold yellow")  # fmt: skip
        return Text(f"no changed prompts: {total}, {_tokens(data, data['tokens'])} prompt tokens", "bold green")
    share = f"{100 * data['again'] / max(1, data['tokens']):.0f} %"
    text = f"{losing} of {total} cannot reuse more than {_tokens(data, data['most'])} tokens: "
    text += f"{_tokens(data, data['again'])} of {_tokens(data, data['tokens'])} prompt tokens ({share}) are "
    style = "bold red" if data["again"] * 10 > data["tokens"] else "bold yellow"
    return Text(f"{text}re-evaluated by any server because the prompt changed", style)


def _causes(data: Data) -> Iterator[Text]:
    """Yield the most expensive causes with evidence and advice."""
    costly = [cause for cause in data["causes"] if not cause["harmless"]]
    for number, cause in enumerate(costly[:CAUSES]):
        if number:
            again = f"{_tokens(data, cause['again'])} tokens re-evaluated"
            yield Text.assemble(("cause  ", "bold"), f"{cause['says']}{_where(cause)}, {again}")
        seen = cause["evidence"]
        if seen is not None:
            yield _seen(f"  {seen['previous']}", seen["text_common"], seen["text_before"], "green")
            yield _seen(f"  {seen['request']}", seen["text_common"], seen["text_after"], "red")
        cure = data["cure"]["advice"] if data["cure"] and not number else ""
        label = "or" if cure else "try"
        advice = cause["advice"].removeprefix(cure).removeprefix(", or ") if cure else cause["advice"]
        if advice:
            yield Text.assemble((f"{label:<7}", "bold"), advice)
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
    if data["reported"] is not None:
        heads = (*heads, "in reply")
        stated = ["-" if row["stated"] is None else f"{row['stated']:,}" for row in rows]
        numbers = [[*cells, count] for cells, count in zip(numbers, stated, strict=True)]
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
    yield from _reloads(data)
    if OLLAMA_GENERATE in data["forms"]:
        yield Text("Ollama: a context is compared with other contexts only, because its text is not known", "dim")
    for matters, says in (("yes", "selects the cache"), ("perhaps", "may change the prompt: --template"),
                          ("unknown", "not known whether it changes the prompt"),
                          ("no", "no effect on the cache")):  # fmt: skip
        names = list(_field_names(data, matters))
        if names:
            yield Text(f"changed between requests: {cut(', '.join(names))} ({says})", "dim")


def _reloads(data: Data) -> Iterator[Text]:
    """Yield the requests for which Ollama loads the model again, by the field that causes it."""
    numbers: dict[str, list[int]] = {}
    for row in data["requests"]:
        if row["reload"]:
            numbers.setdefault(row["reload"], []).append(row["request"])
    for name, requests in numbers.items():
        why = "the one before has keep_alive 0" if name == "keep_alive" else f"{name} changed"
        where = f"Ollama loads the model again for {request_numbers(requests)} and keeps nothing"
        yield Text(f"{where}: {why} (not simulated)", "yellow")


def _field_names(data: Data, *matters: str) -> Iterator[str]:
    """Yield the names of changed fields that matter so, each once; the numbers of messages and blocks are left out."""
    names = (_NUMBERS.sub("[]", field["name"]) for request in data["requests"] for field in request["parameters"]
             if field["matters"] in matters)  # fmt: skip
    yield from dict.fromkeys(names)


def _simulation(data: Data) -> Iterator[Text]:
    """Yield the tokens of all prompts, split into reused, new, changed and not kept."""
    found = data["simulation"]
    if not found["played"]:
        reason = found["limit"] or f"the server refuses{_by_estimate(data)}: {found['refused']}"
        yield Text(f"not simulated: {reason}", "yellow")
        return
    yield Text.assemble(
        (f"simulated under {found['profile']}, model {found['model']}: ", "bold"),
        f"{_tokens(data, found['tokens'])} prompt tokens = {_tokens(data, found['reused'])} reused + "
        f"{_tokens(data, found['new_tokens'])} new + "
        f"{_tokens(data, found['again'])} re-evaluated because the prompt changed + "
        f"{_tokens(data, found['not_kept'])} re-evaluated because the server did not keep them",
    )  # fmt: skip
    if found["assumed"]:
        yield Text(assumption(found["assumed"], found["assumed_cap"]))
    if found["refused"]:
        yield Text(f"the server refuses a request{_by_estimate(data)}: {found['refused']}", "yellow")
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

