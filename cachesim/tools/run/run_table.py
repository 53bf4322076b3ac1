"""Report of a run: verdict, wrong reads, a table of the token sources of each prompt, and re-evaluated tokens.

The input is the data of ``run_data``.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import ROOMY, FittedRenderable, WholeTable, as_typed, indented, lean_table, shortened
from cachesim.engines.registry import engine_named
from cachesim.judging.equal_outcomes import fold, short_names
from cachesim.judging.evidence import PREDICTED
from cachesim.judging.memory_text import memory_parts
from cachesim.judging.recompute_reasons import what_happened
from cachesim.judging.reproduce_command import flags_line
from cachesim.judging.verdict_text import style_of, titles_text, verdict_line
from cachesim.judging.verdict_words import OK, VerdictWord, shown_verdict

Data = Mapping[str, Any]
WHAT = {"verdict": "the wrong answer", "charge": "the re-evaluated tokens"}


def predicted_lines(found: Sequence[Data]) -> Iterator[RenderableType]:
    """Yield a line for each rule outcome that was never seen on a real server and that a verdict or charge depends on.
    ``found``: the dependences of ``run_data``."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for entry in found:
        groups.setdefault((entry["what"], entry["rule"], entry["case"]), []).append(entry["request"])
    for (what, rule, case), numbers in groups.items():
        requests = counted(len(numbers), "request").partition(" ")[2]
        where = ", ".join(map(str, numbers))
        yield indented(f"{requests} {where}, {WHAT[what]}: {PREDICTED} ({rule}, case {case!r})", "yellow")


MOST = 12              # checkpoints listed individually


def state_lines(requests: Iterable[Mapping[str, Any]]) -> Iterator[Padding]:
    """Yield a line for each answered request: slot, checkpoints, prompt cache, shifts, preemptions and drafts."""
    for request in requests:
        text = "; ".join(_state_parts(request))
        if text:
            yield indented(f"after request {request['i']}: {text}", "dim")


def _state_parts(request: Mapping[str, Any]) -> Iterator[str]:
    if request["died"]:
        return
    has_slot = request["slot_tokens"] is not None
    if has_slot:
        yield f"slot {request['id_slot']} holds {counted(request['slot_tokens'], 'token')}"
    if request["checkpoints"]:
        shown = ", ".join(map(str, request["checkpoints"][:MOST])) + ", .." * (len(request["checkpoints"]) > MOST)
        number = len(request["checkpoints"])
        yield f"{counted(number, 'checkpoint')} at {shown}" if has_slot else (
            f"{counted(number, 'stored prefix', 'stored prefixes')} of {shown} tokens")
    if request["entries"]:
        size = "" if request["stored_mib"] is None else f" of {request['stored_mib']} MiB"
        yield f"prompt cache: {counted(request['entries'], 'entry', 'entries')}{size}"
    for held, keep, discard in request["shifts"]:
        yield f"context shift at {held}: kept {keep}, dropped {discard}"
    if request["preemptions"]:
        yield f"{counted(request['preemptions'], 'preemption')} of running requests"
    if request["draft_n"]:
        yield f"drafts: {request['draft_n_accepted']} of {counted(request['draft_n'], 'token')} accepted"
    if request["completions"] > 1:
        yield f"{request['completions']} completions"
    yield from memory_parts(request)


def failure_block(data: Data) -> RenderableType:
    """Return the explanation of a failure: Let, Then, Hence, the source of the decisive rule, and the command that
    reproduces it, unwrapped for copying. ``data``: from ``failure_data``."""
    table = WholeTable(padding=(0, 1, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for word, text, style in _rows(data):
        table.add_row(Text(word, "bold" if word else ""), Text(text, style))
    source = [as_typed(data["source"], "dim", "source ")] if data["source"] else []
    return Group(table, *source, as_typed(data["command"], "bold"))


def failures_report(found: Sequence[Data]) -> RenderableType | None:
    """Return the explanations of the failures in data of ``run_data`` or ``answer_data``, one for each distinct
    outcome, None without a failure."""
    failures = [data["failure"] for data, *_ in fold(found) if data["failure"]]
    return Group(*map(failure_block, failures)) if failures else None


def _rows(data: Data) -> Iterator[tuple[str, str, str]]:
    for i, cause in enumerate(data["causes"]):
        rule = f" ({cause['rule']})" if cause["rule"] else ""
        same = i > 0 and data["causes"][i - 1]["request"] == cause["request"]
        yield ("Let", "Then", "")[min(i, 2)], f"{'  ' * same}{cause['text']}{rule}", ""
    yield "Hence", data["hence"], "bold red"


def block_of_case(case: Data) -> RenderableType:
    """Return the explanation of a failure that the search found. If the scenario cannot be run again (``failure`` is
    None: the simulator crashes), the causes that the search recorded and the command."""
    if case["failure"] is not None:
        return failure_block(case["failure"])
    causes = (Text(f"  {cause}", "dim") for cause in case.get("causes", ()))
    return Group(*causes, as_typed(case["command"], "bold"))


COUNTS = ("kept", "restored", "loaded", "evaluated")
SHOWN = 3                # corrupt objects listed without -v


def report_of_groups(
    top: Text, common: Sequence[RenderableType], groups: Sequence[Sequence[Data]], block: Callable[[Data], Group],
    is_answer: bool = False,
) -> RenderableType:
    """Return ``top``, the flags and ``common`` once, then the block of the first run of each group of ``fold``, with
    the rule sets of the group. Flags that differ between the groups stand in their blocks. ``is_answer``: the blocks
    come first."""
    flags = [flags_line(group[0]["flags"]) for group in groups]
    alike = all(one == flags[0] for one in flags)
    names = [rule_sets_text(group) for group in groups]
    head = Text.assemble(top, "  ", names[0]) if len(groups) == 1 else top
    blocks: list[RenderableType] = []
    for name, own, group in zip(names, flags, groups, strict=True):
        blocks += [Text("")] if blocks else []
        blocks += [*([name] if len(groups) > 1 else []), *([] if alike else own), block(group[0])]
    about = [*(flags[0] if alike else ()), *common]
    return Group(head, *blocks, *about) if is_answer else Group(head, *about, *blocks)


def rule_sets_text(group: Sequence[Data]) -> Text:
    """Return ``llama_cpp@b9518 (same under b10587, b11549)``."""
    first, _, others = short_names([run["profile"] for run in group]).partition(", ")
    return Text.assemble((first, "cyan"), f" (same under {others})" if others else "")


def run_report(*runs: Data, verbose: int = 0, legend: bool = False) -> RenderableType:
    """Return the report of a scenario under one or more rule sets: title, then for each distinct outcome verdict,
    wrong reads, requests, re-evaluated tokens, corrupt objects. ``verbose`` adds the purpose of the scenario, the state
    after each request, and all corrupt objects. ``legend`` adds a line that explains the columns of the table. Without
    ``verbose``, rule sets of several engines have a line each: their table of reused tokens is above."""
    data = runs[0]
    if not verbose and len({run["profile"].partition("@")[0] for run in runs}) > 1:
        return Group(*map(_brief, runs), "")
    common: list[RenderableType] = [] if data["scenario"] == "try" else [Text(data["title"])]
    common += [indented(titles_text(data["titles"]), "dim")] if data["titles"] else []
    common += [indented(" ".join(data["why"].split()), "dim")] if verbose and data["why"] else []
    top, groups = Text.assemble((data["scenario"], "bold"), f"  {data['model']}"), fold(runs)
    return Group(report_of_groups(top, common, groups, lambda run: _block(run, verbose, legend and run is data)), "")


def _block(data: Data, verbose: int, legend: bool) -> Group:
    """Return the report of a run, without the title of its scenario."""
    first = [*_wrong(data), *predicted_lines(data["predicted"]), *map(_mismatch, data["mismatches"])]
    table = FittedRenderable(lambda width: _table(data["requests"], width))
    left = state_lines(data["requests"]) if verbose else ()
    engine = engine_named(data["profile"].partition("@")[0])
    kept = engine.keeps
    lost = [_lost(charge, kept) for charge in data["lost"]]
    signs = [_legend(kept, engine.manual.pool)] if legend else []
    rest = [*signs, *left, *lost, *_corrupt(data, verbose), *map(_lives, data["lives"])]
    failure = [failure_block(data["failure"])] if data["failure"] else []
    last = [Text(not_run_line(data), "yellow")] if data["not_run"] else []
    return Group(verdict_line(data), *first, table, *rest, *failure, *last)


def _brief(data: Data) -> Group:
    """Return the verdict about a rule set with the causes of its re-evaluated tokens; of a failure, the whole block."""
    name = Text.assemble((data["profile"], "cyan"))
    if data["failure"] or data["not_run"]:
        return Group(name, _block(data, verbose=0, legend=False))
    kept = engine_named(data["profile"].partition("@")[0]).keeps
    line = Text.assemble(name, ": ", verdict_line(data))
    lost = (_lost(charge, kept) for charge in data["lost"])
    return Group(line, *_wrong(data), *predicted_lines(data["predicted"]), *map(_mismatch, data["mismatches"]), *lost,
                 *_corrupt(data, verbose=0), *map(_lives, data["lives"]))  # fmt: skip


def not_run_line(data: Data) -> str:
    """Return the requests that a limit of the run excluded, with the limit and its flag."""
    first, many = len(data["requests"]), data["not_run"] > 1
    numbers = f"requests {first} to {first + data['not_run'] - 1}" if many else f"request {first}"
    return f"not run: {numbers} ({data['limit']})"


def _legend(keeps: str, pool: bool) -> RenderableType:
    """Explanation of the columns ``COUNTS``. ``keeps``: the engine's noun for its restore points; ``pool``: all
    requests share one cache."""
    way = "loaded from the shared cache" if pool else f"kept in slot, restored from {keeps}, loaded from prompt cache"
    return Text(f"{way}, evaluated now", "dim")


def _table(requests: Sequence[Data], width: int) -> WholeTable:
    plain = all(one["verdict"] == OK.name for one in requests)
    table = lean_table(width)
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold", min_width=7)
    for name in ("prompt", *COUNTS):
        table.add_column(name, justify="right")
    for name in (*(() if plain else ("answer",)), "reason", *(("decided by",) if width >= ROOMY else ())):
        table.add_column(name, no_wrap=name == "decided by")
    for request in requests:
        text = f"+ {request['text']}" if request["how"] == "together" else request["text"]
        answer = () if plain else (Text(short_verdict(request["verdict"]), style_of(request["verdict"])),)
        rule = (Text(request["rule"], "dim"),) if width >= ROOMY else ()
        table.add_row(str(request["i"]), Text(shortened(text, 60)), _number(request["prompt"]),
                      *map(_number, origins(request)), *answer, _reason(request), *rule)  # fmt: skip
    return table


def _reason(request: Data) -> str:
    """Return why the request reused its tokens, "" if it was not answered."""
    return str(request["reason"]) if request["status"] == 200 and not request["died"] else ""


def short_verdict(verdict: str) -> str:
    """Return the verdict of a request, shortened for a table cell."""
    shown = shown_verdict(verdict)
    return verdict if shown is None else shown.short


def origins(request: Data) -> tuple[int, int, int, int]:
    """Return the prompt tokens of each source, in the order of ``COUNTS``."""
    return request["kept"], request["restored"], request["loaded"], request["computed"]


def _number(n: int) -> str:
    return str(n) if n else "·"


def _wrong(data: Data) -> Iterator[RenderableType]:
    """Yield the faults of the answers, a line per fault, and the memory that the requests read instead of their own."""
    groups: dict[tuple[str, str], list[Data]] = {}
    for one in data["requests"]:
        if one["verdict"] != OK.name:
            groups.setdefault((one["fault"], one["rung"]), []).append(one)
    for (fault, rung), same in groups.items():
        numbers = ", ".join(str(one["i"]) for one in same)
        end = f" [{rung}]" if rung in ("bits", "argmax") else ""
        yield indented(f"request {numbers}: {fault}{end}", style_of(same[0]["verdict"]))
        yield from (indented(f"request {one['i']} {read}", "", 4) for one in same for read in one["read_instead"])


def _lives(life: Data) -> RenderableType:
    versions = [f"from {life['first']}"] if life["first"] else []
    if not life["in_newest"]:
        versions.append(f"up to {life['last']}")
    elif versions:
        versions.append("on")
    where = " ".join(versions) or "in every version with these features"
    return indented(f"the bug at request {life['request']} exists {where}", "dim")


def _lost(charge: Data, kept: str) -> RenderableType:
    when = f" at request {charge['at']}" if charge["at"] >= 0 else ""
    what = what_happened(charge["event"], charge["kind"], kept)
    rule = f" ({charge['rule']})" if charge["rule"] else ""
    tokens = counted(charge["tokens"], "token")
    return indented(f"request {charge['request']}: {tokens} re-evaluated: {what}{when}{rule}", "yellow")


def _once(armed: Sequence[Data]) -> list[Data]:
    """Return each corrupt object once, at the first request after which it exists."""
    seen: set[tuple[Any, ...]] = set()
    out = []
    for corrupt in armed:
        key = (corrupt["kind"], corrupt["owner"], corrupt["tokens"], corrupt["fault"])
        if key not in seen:
            seen.add(key)
            out.append(corrupt)
    return out


def _corrupt(data: Data, verbose: int) -> Iterator[RenderableType]:
    """Yield a line for each stored object whose content differs from what the server records: the first ``SHOWN``, all
    with ``verbose``. A report with a failure block omits them, because its causes name those that matter."""
    if data["failure"] and not verbose:
        return
    every = _once(data["armed"])
    shown = every if verbose else every[:SHOWN]
    for corrupt in shown:
        what = f"{corrupt['kind']} of {counted(corrupt['tokens'], 'token')} (of {corrupt['owner']})"
        instead = f"it has {corrupt['holds'][0]}" if corrupt["holds"] else corrupt["fault"]
        yield indented(f"after request {corrupt['request']}: {what} is corrupt, not used yet: {instead}", "yellow")
    if len(every) > len(shown):
        yield indented(f"and {counted(len(every) - len(shown), 'more corrupt object')} (-v)", "yellow")


def _mismatch(found: Data) -> RenderableType:
    return indented(mismatch_text(found), "red")


def mismatch_text(found: Data) -> str:
    """Return a line on a number that differs from the expectation of the file."""
    where = f"request {found['request']}: " if found["request"] >= 0 else ""
    return f"{where}{found['what']} is {found['got']}, the file expects {found['expected']}"


def closing_line(runs: Sequence[Data], failed: int) -> Text:
    """Return the counts of all runs in a line. ``failed``: number of files and runs without a result."""
    hold, wrong, undecided = (sum(run["holds"] is value for run in runs) for value in (True, False, None))
    off = sum(run["as_expected"] is False for run in runs)
    known = sum(run["as_expected"] is True for run in runs)
    counts = f"{hold} {OK.name}, {wrong} {VerdictWord.WRONG}, {undecided} {VerdictWord.UNDECIDED}"
    text = f"{counted(len(runs), 'run')}: {counts}"
    if known or off:
        text += f"; {counted(known, 'matches', 'match')} expectations, {counted(off, 'differs', 'differ')}"
    if failed:
        text += f"; {failed} not run"
    return Text(text, "bold red" if off or failed else "bold yellow" if wrong or undecided else "bold green")
