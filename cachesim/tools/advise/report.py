"""Report of advice: the unchanged case and the lower bound, then each suggestion with its command."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import as_typed, indented
from cachesim.engines.registry import engine_of
from cachesim.judging.reproduce_command import flag_text
from cachesim.tools.advise.case_facts import build_number
from cachesim.tools.run.run_table import predicted_lines

Data = dict[str, Any]
FEW = 6                # numbers of lines or requests that a sentence names, at most


def advise_report(data: Data) -> RenderableType:
    """Return the report. Each command can be copied to a shell."""
    return Group(case_report(data), found_report(data))


def found_report(data: Data) -> RenderableType:
    """Return the lines after those of the unchanged case: what a search for changes found."""
    return Group(*_found(data))


def _found(data: Data) -> Iterator[RenderableType]:
    if not _is_refuted(data):
        yield from predicted_lines(data["base"]["predicted"])
        yield indented(_peak(data), "dim")
    for i, item in enumerate(data["advice"], 1):
        yield from _piece(str(i), item, data)
    yield from _proposed(data)
    if not data["advice"]:
        yield Text(_nothing(data), "bold")
    if _is_refuted(data):
        yield as_typed(data["log"]["command"], "cyan", "   ")
    for item in (*data["not_released"], *data["traps"]):
        yield from _piece("-", item, data)


def _peak(data: Data) -> str:
    mib = data["base"]["mib"]
    if mib is not None:
        return f"peak memory: {mib:,.1f} MiB ({data['sizes']})"
    return f"MiB: n/a ({'the server reserves its pool at its start' if data['sizes'] else '--sizes names a model'})"


def try_sentence(data: Data) -> str:
    """Return the best suggestion in a sentence, ``Try: -np 2 (347 -> 267 tokens evaluated)``; "" without advice."""
    if not data["advice"]:
        return ""
    best = data["advice"][0]
    return f"Try: {changes_text(best, data)} ({data['base']['evaluated']:,} -> {best['evaluated']:,} tokens evaluated)"


def run_names(data: Data) -> list[str]:
    """Return names for the unchanged run and the run with the best suggestion."""
    return [f"{name}: {counted(item['evaluated'], 'token')} evaluated" for name, item in
            (("now", data["base"]), *((f"with {changes_text(item, data)}", item) for item in data["advice"][:1]))]


def saved_report(saved: Data | None, command: str, about: str = "") -> Iterator[Text]:
    """Yield the tokens that another client or other flags would have saved, in a sentence, and what it rests on.
    ``command``: prints all suggestions; ``about``: mark of estimated counts."""
    if saved is None:
        return
    if saved["too_slow"]:
        yield Text("Savings by another client or other flags are not computed here (too slow):")
        yield as_typed(command, label="  ")
        return
    who = "another client" if saved["client"] else "other flags"
    tokens = f"{about}{saved['saved']:,} of {about}{saved['evaluated']:,} evaluated tokens"
    yield Text(f"Simulated: {who} would have saved {tokens} "
               f"({saved['share']:.0%}): {saved['text'].removeprefix('client: ')}.", "bold yellow")  # fmt: skip
    basis = f"Under {saved['profile']}, model {saved['model']}"
    if saved["assumes"]:
        basis += f"; holds only if {saved['assumes']}"
    if saved["lowest"] < saved["highest"]:
        basis += f" ({saved['varied']}: {saved['lowest']:,} to {saved['highest']:,} saved)"
    yield Text(f"{basis}.", "dim")
    yield as_typed(command, "dim", "All suggestions: ")


def case_report(data: Data) -> RenderableType:
    """Return the first lines: the unchanged case and what it evaluates. They need no search for changes (``case_data``,
    with a bound of which is known whether it holds)."""
    return Group(*_case(data))


def _case(data: Data) -> Iterator[RenderableType]:
    base = data["base"]
    bound = data["bound"]
    log = data["log"]
    least = f"; lower bound for any server: {bound['total']:,}" if bound["holds"] else ""
    yield Text.assemble((data["scenario"], "bold"), "  ", (data["profile"], "cyan"), "  ", data["model"])
    if _is_refuted(data):
        return
    before = f" ({log['before']} of them before the log begins, assumed)" if log and log["before"] else ""
    yield indented(f"{counted(data['requests'], 'request')}{before}, {data['prompt_tokens']:,} prompt tokens: "
                   f"{base['evaluated']:,} evaluated{least}")  # fmt: skip
    yield from (indented(f"note: {one}", "yellow") for one in data["notes"])
    if log:
        yield from _of_log(data, log)
    if data["rule_sets"] > 1:
        yield indented(f"newest of its {data['rule_sets']} rule sets with re-evaluated tokens or wrong answers "
                       "(-p selects another)", "dim")  # fmt: skip
    if data.get("assumes"):
        yield indented(f"suggestions for the client hold only if {data['assumes']}", "dim")
    if marks := _marks(base, data["requests"]):
        yield indented(marks, "bold red")


def case_note(data: Data) -> str:
    """Return the unchanged case in a line, for a reader who waits for the lines that need the whole search."""
    base = data["base"]
    return (f"{data['scenario']} under {data['profile']}: {base['evaluated']:,} of {data['prompt_tokens']:,} prompt "
            f"tokens evaluated; {_marks(base, data['requests'])}")  # fmt: skip


def _is_refuted(data: Data) -> bool:
    """True if the simulation contradicts the log of the case."""
    return bool(data["log"] and data["log"]["is_refuted"])


def _of_log(data: Data, log: Data) -> Iterator[RenderableType]:
    """Yield another build than the simulated one that the log prints, and the settings that the simulation assumes."""
    printed = log["printed_build"]
    if printed and build_number(data["profile"]) != printed:
        yield indented(f"the log prints build {printed}; simulated is {data['profile']}", "bold yellow")
    if log["assumed"]:
        yield indented(f"every number holds only if {' and '.join(log['assumed'])}, which the log does not show",
                       "bold yellow")  # fmt: skip


def _nothing(data: Data) -> str:
    if _is_refuted(data):
        return _refuted(data["log"])
    if data["not_released"]:
        return "No advice: only rule sets that are not released evaluate fewer tokens or correct answers."
    if not data["base"]["wrong"] and data["base"]["evaluated"] <= data["bound"]["total"]:
        if data["bound"]["holds"]:
            return "The server already evaluates only what any server must evaluate."
        return "No advice: texts that the log does not show are simulated as new."
    if any(one["outcome"] == "saves" for one in data["proposed"]):
        return f"No other improvement: {counted(data['tried'], 'change')} tried."
    return f"{counted(data['tried'], 'change')} tried, without improvement."


def _proposed(data: Data) -> Iterator[RenderableType]:
    """Yield what the changes save that ``import`` and ``watch`` propose for the log."""
    if data["proposed"]:
        yield Text("Proposed by cachesim import and cachesim watch:")
    for one in data["proposed"]:
        yield indented(_proposal(one, data))
        if one["suggestion"] is None and one["outcome"] == "saves":
            if one["rests_on"]:
                yield indented(f"Only if {' and '.join(one['rests_on'])}: the log does not show it.", "dim", 3)
            if one["command"]:
                yield as_typed(one["command"], "cyan", "   ")


def _proposal(change: Data, data: Data) -> str:
    """Return a proposed change and its outcome in a sentence."""
    if change["outcome"] != "saves":
        why = f" ({change['why']})" if change["why"] else ""
        return f"{change['text']}: {change['outcome']}{why}."
    most = f" to {change['saved_most']:,}" if change["saved_most"] > change["saved"] else ""
    shown = f" (suggestion {change['suggestion']})" if change["suggestion"] else ""
    tokens = f"{change['saved']:,}{most} of {data['base']['evaluated']:,} evaluated tokens{shown}"
    return f"{change['text']}: saves {tokens}{_REPEATS if most else ''}."


_REPEATS = "; most if the text after the difference repeats what the slot held"


def _refuted(log: Data) -> str:
    """Return why a log that the simulation contradicts has no advice, before the command that shows the numbers."""
    where = (f"numbers of the log (line {_few(log['contradicted'])})" if log["contradicted"]
             else f"the reused tokens of the log (request {_few(log['differing'])})")  # fmt: skip
    return f"No advice: the simulation contradicts {where}. Shown by:"


def _few(numbers: Sequence[int]) -> str:
    """Return the first numbers of a list."""
    return ", ".join(map(str, numbers[:FEW])) + (", ..." if len(numbers) > FEW else "")


def _piece(number: str, item: Data, data: Data) -> Iterator[RenderableType]:
    base = data["base"]
    tokens = f"{base['evaluated']:,} -> {item['evaluated']:,} tokens ({-item['share']:+.0%})"
    memory = "" if item["mib"] is None else f", {base['mib']:,.1f} -> {item['mib']:,.1f} MiB"
    yield Text.assemble((f"{number}  ", "dim"), (tokens + memory, "bold"))
    yield indented(changes_text(item, data), "", 3)
    for note in _notes(item, data):
        yield indented(note, "dim", 3)
    if marks := _marks(item, data["requests"], base):
        yield indented(marks, "bold red", 3)
    yield from predicted_lines(item["predicted"])
    yield as_typed(item["command"], "cyan", "   ", "--out FOLDER writes the case to a file")


def changes_text(item: Data, data: Data) -> str:
    """Return the changes of a suggestion in words."""
    return "; and ".join(_change(each, item, data) for each in item["changes"])


def _change(change: Data, item: Data, data: Data) -> str:
    if change["kind"] in ("flag", "client"):
        manual = engine_of(data["profile"]).manual
        flags = [(manual.flag(each["name"]), each["value"]) for each in change["options"]]
        typed = " ".join(flag_text(flag, value, manual.open_words) for flag, value in flags if flag is not None)
        return "; client: ".join(filter(None, (typed, change["text"]))) if typed else f"client: {change['text']}"
    if not change["released"]:
        made = f"{change['profile']}, made on {change['base']}"
        if change["pull"]:
            return f"not released: pull request {change['pull']} ({made}); case: {change['pull_case']}"
        return f"not released: {made}"
    when = change["build"] if change["date"] in (None, change["build"]) else f"{change['build']} ({change['date']})"
    return f"build {when}{' or later' if item['later'] else '; later builds do not have it'}: {change['profile']}"


def _notes(item: Data, data: Data) -> Iterator[str]:
    """Yield the help of changed flags, the rule changes of a build, the bound of changed requests, and equivalents."""
    for change in item["changes"]:
        if change["kind"] == "flag":
            flags = (engine_of(data["profile"]).manual.flag(each["name"]) for each in change["options"])
            yield " ".join(flag.help.partition(". ")[0].rstrip(".") + "." for flag in flags if flag is not None)
    if item["below"]:
        yield _smaller(item["below"], item)
    if item["since"]:
        word = " or " if item["since"][0]["alone"] else " together with "
        yield f"Changed by {word.join(map(_since, item['since']))}."
    if item["bound"] != data["bound"]["total"] and data["bound"]["holds"]:
        yield f"The requests change; their lower bound is {item['bound']:,} tokens."
    own = [clause for clause in item["rests_on"] if clause not in (data["log"] or {"assumed": ()})["assumed"]]
    if own:
        yield f"Only if {' and '.join(own)}: the log does not show it."
    if tie := _tie(item, data):
        yield tie
    if item["alike"]:
        yield f"Equivalent: {', '.join(item['alike'])}."


def _smaller(below: Data, item: Data) -> str:
    """Return what the next smaller size does."""
    failed = len({*item["wrong"], *item["failed"], *item["undecided"]})
    if below["bad"] > failed:
        return f"The smallest sufficient value found: with {below['value']} fewer answers are correct."
    return f"The smallest sufficient value found: with {below['value']}, {below['evaluated']:,} tokens are evaluated."


def _tie(item: Data, data: Data) -> str:
    """Return the first suggestion that saves as many tokens with as many correct answers, in words; "" without one."""
    same = [number for number, other in enumerate(data["advice"], 1) if _result(other) == _result(item)]
    before = [number for number in same if data["advice"][number - 1] is not item]
    if not before or item not in data["advice"] or data["advice"].index(item) < before[0]:
        return ""
    return f"A tie with suggestion {before[0]}: as many tokens."


def _result(item: Data) -> tuple[int, ...]:
    """Return the evaluated tokens of a suggestion and its numbers of answers that are not correct."""
    return (item["evaluated"], *(len(item[key]) for key in ("wrong", "failed", "undecided")))


def _since(since: Data) -> str:
    came = f" ({since['build']})" if since["build"] else ""
    return f"{since['source'] or since['field']}{came}, {since['old']} -> {since['new']}"


def _marks(item: Data, requests: int, base: Data | None = None) -> str:
    """Return the failures in words. With ``base``, ``item`` is advice: also report what it corrects or corrupts."""
    said = [f"{word}: {len(item[key])} of {counted(requests, 'answer')}"
            for key, word in (("wrong", "WRONG"), ("failed", "NO ANSWER"), ("undecided", "UNDECIDED"))
            if set(item[key]) - set(item["failed"] if key == "undecided" else ())]  # fmt: skip
    if base is not None and len(item["wrong"]) < len(base["wrong"]):
        said.append(f"corrected: {counted(len(base['wrong']) - len(item['wrong']), 'answer')}")
    if base is not None and len(item["corrupt"]) > len(base["corrupt"]):
        said.append("stored state is corrupt, but was not used yet")
    return "; ".join(said)
