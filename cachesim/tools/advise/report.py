"""What would have helped? The case as it is and the bound, then each piece of advice with the command that shows it."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import indented
from cachesim.engines.registry import engine_of
from cachesim.judging.reproduce_command import flag_text
from cachesim.tools.run.run_table import as_typed, predicted_lines

Data = dict[str, Any]


def advise_report(data: Data) -> RenderableType:
    """Everything; each command is typed as it stands."""
    parts: list[RenderableType] = [*_head(data)]
    for i, one in enumerate(data["advice"], 1):
        parts += _piece(str(i), one, data)
    if not data["advice"]:
        parts.append(Text(_nothing(data), "bold"))
    for one in data["traps"]:
        parts += _piece("-", one, data)
    return Group(*parts)


def try_sentence(data: Data) -> str:
    """``Try: -np 2 (347 -> 267 tokens evaluated)``: the best advice in one sentence, "" where there is none."""
    if not data["advice"]:
        return ""
    one = data["advice"][0]
    return f"Try: {_changes(one, data)} ({data['base']['evaluated']:,} -> {one['evaluated']:,} tokens evaluated)"


def _head(data: Data) -> Iterator[RenderableType]:
    base, bound = data["base"], data["bound"]["total"]
    yield Text.assemble((data["scenario"], "bold"), "  ", (data["profile"], "cyan"), "  ", data["model"])
    yield indented(f"{counted(data['requests'], 'request')}, {data['prompt_tokens']:,} prompt tokens: "
                   f"{base['evaluated']:,} evaluated; at least {bound:,}, whatever the server does")  # fmt: skip
    if data["rule_sets"] > 1:
        yield indented(f"the newest of its {data['rule_sets']} rule sets under which something is lost (-p chooses)",
                       "dim")  # fmt: skip
    if marks := _marks(base, data["requests"]):
        yield indented(marks, "bold red")
    yield from predicted_lines(base["predicted"])
    yield indented(f"held at most: {base['mib']:,.1f} MiB ({data['sizes']})" if data["sizes"]
                   else "MiB: n/a (--sizes names a model)", "dim")  # fmt: skip


def _nothing(data: Data) -> str:
    if not data["base"]["wrong"] and data["base"]["evaluated"] <= data["bound"]["total"]:
        return "Nothing is evaluated that a server could do without."
    return f"Nothing helps of {counted(data['tried'], 'change')} that {'were' if data['tried'] != 1 else 'was'} tried."


def _piece(number: str, one: Data, data: Data) -> Iterator[RenderableType]:
    base = data["base"]
    tokens = f"{base['evaluated']:,} -> {one['evaluated']:,} tokens ({-one['share']:+.0%})"
    memory = "" if one["mib"] is None else f", {base['mib']:,.1f} -> {one['mib']:,.1f} MiB"
    yield Text.assemble((f"{number}  ", "dim"), (tokens + memory, "bold"))
    yield indented(_changes(one, data), "", 3)
    for note in _notes(one, data):
        yield indented(note, "dim", 3)
    if marks := _marks(one, data["requests"], base):
        yield indented(marks, "bold red", 3)
    yield from predicted_lines(one["predicted"])
    yield as_typed(f"   {one['command']}", "cyan")


def _changes(one: Data, data: Data) -> str:
    return "; and ".join(_change(each, one, data) for each in one["changes"])


def _change(change: Data, one: Data, data: Data) -> str:
    if change["kind"] in ("flag", "client"):
        manual = engine_of(data["profile"]).manual
        flags = [(manual.flag(each["name"]), each["value"]) for each in change["options"]]
        typed = " ".join(flag_text(flag, value, manual.open_words) for flag, value in flags if flag is not None)
        return "; client: ".join(filter(None, (typed, change["text"]))) if typed else f"client: {change['text']}"
    if not change["released"]:
        return f"not released: {change['profile']}, made on {change['base']}"
    when = change["build"] if change["date"] in (None, change["build"]) else f"{change['build']} ({change['date']})"
    return f"build {when}{' or later' if one['later'] else ', no later one'}: {change['profile']}"


def _notes(one: Data, data: Data) -> Iterator[str]:
    """What a flag does; the bound of other requests; who else does the same."""
    for change in one["changes"]:
        if change["kind"] == "flag":
            flags = (engine_of(data["profile"]).manual.flag(each["name"]) for each in change["options"])
            yield " ".join(flag.help.partition(". ")[0].rstrip(".") + "." for flag in flags if flag is not None)
    if one["since"]:
        word = " or " if one["since"][0]["alone"] else " together with "
        yield f"Changed by {word.join(map(_since, one['since']))}."
    if one["bound"] != data["bound"]["total"]:
        yield f"These are other requests: at least {one['bound']:,} tokens."
    if one["alike"]:
        yield f"The same: {', '.join(one['alike'])}."


def _since(one: Data) -> str:
    came = f" ({one['build']})" if one["build"] else ""
    return f"{one['source'] or one['field']}{came}, {one['old']} -> {one['new']}"


def _marks(one: Data, requests: int, base: Data | None = None) -> str:
    """What is wrong, in words. With ``base``: of advice, with what it mends or spoils."""
    said = [f"{word}: {len(one[key])} of {counted(requests, 'answer')}"
            for key, word in (("wrong", "WRONG"), ("failed", "NO ANSWER"), ("undecided", "UNDECIDED"))
            if set(one[key]) - set(one["failed"] if key == "undecided" else ())]  # fmt: skip
    if base is not None and len(one["wrong"]) < len(base["wrong"]):
        said.append(f"right now: {counted(len(base['wrong']) - len(one['wrong']), 'answer')}")
    if base is not None and len(one["corrupt"]) > len(base["corrupt"]):
        said.append("what it stores is corrupt, and was not used yet")
    return "; ".join(said)
