"""Report of ``why``: verdict about a request, sources of its prompt tokens, and the decisions that caused them."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.layout import WholeTable, indented
from cachesim.engines.rule import Role
from cachesim.judging.equal_outcomes import fold, short_names
from cachesim.judging.evidence import Grade
from cachesim.judging.memory_text import memory_parts
from cachesim.judging.run_data import COUNTED_TWICE, first_evaluated
from cachesim.judging.verdict_text import QUIET, answer_text, cost_text, style_of
from cachesim.judging.verdict_words import OK
from cachesim.scenarios.known_repairs import repair_among
from cachesim.tools.run.run_table import failure_block, predicted_lines, report_of_groups, rule_sets_text


def answer_report(answers: Sequence[dict[str, Any]]) -> RenderableType:
    """Return what is known of a request under one or more rule sets before the search: the verdict of each distinct
    outcome, then flags and purpose."""
    data = answers[0]
    top = Text.assemble((data["scenario"], "bold"), f" request {data['request']} ", (data["text"], "bold"))
    common: list[RenderableType] = [] if data["scenario"] == "try" else [Text(data["title"])]
    common += [indented(" ".join(text.split()), "dim") for text in (data["why"], data["request_why"]) if text]
    common += [indented(data["real_builds"], "dim")] if data["real_builds"] else []
    return report_of_groups(top, common, fold(answers), lambda run: Group(*_verdict(run)), is_answer=True)


def reasons_report(
    found: Sequence[dict[str, Any]], answers: Sequence[dict[str, Any]], verbose: int
) -> RenderableType:
    """Return what follows ``answer_report``: for each distinct outcome the rules that decided, wrong reads, token
    sources and decisions. ``answers``: data without the search; rule sets are named unless all share an outcome.
    ``verbose`` adds decisions without an effect."""
    groups = fold(found)
    if len(groups) == len(fold(answers)) == 1:
        return _reasons(groups[0][0], verbose)
    blocks = [Group("", rule_sets_text(group), _reasons(group[0], verbose)) for group in groups]
    return Group(*blocks)


def _reasons(data: Mapping[str, Any], verbose: int) -> Group:
    """Return the report of a request under a rule set, without its purpose and verdict."""
    reads = [indented(f"it {read}") for read in data["read_instead"]]
    doubt = [Text("other outcomes are possible here", "yellow")] if data["doubt"] else []
    tokens = [] if data["refused"] or data["died"] else [_tokens(data), _ranges(data["computed"]), *_unused(data)]
    failure = [failure_block(data["failure"])] if data["failure"] else []
    read = [*reads, *predicted_lines(data["predicted"])]
    memory = [indented(text, "dim") for text in memory_parts(data)] if verbose else []
    end = [_decisions(data, verbose), *memory, *failure]
    return Group(*_deciding_rules(data), *read, *doubt, *tokens, *end)


def _deciding_rules(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the setting and the rule that decided, the more likely cause first, then the others that suffice."""
    found = [one["says"] for one in (data["settings"], data["decided"]) if one is not None]
    if data["settings"] is not None and not data["settings"]["leads"]:
        found.reverse()
    for number, (first, *more) in enumerate(found):
        yield indented(first, "dim" if number else "bold")
        yield from (indented(line, "dim") for line in more)


def _unused(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the stored objects that the request did not use, each with the obstacle."""
    if data["unused"] is not None:
        none = "when the request came, no restore point shared more tokens with it than it reused"
        yield from (indented(text, "dim") for text in [one["says"] for one in data["unused"]] or [none])


def _decisions(data: Mapping[str, Any], verbose: int) -> RenderableType:
    table = WholeTable(show_header=False)
    table.add_column(no_wrap=True, style="dim")
    made = True                       # if checkpoints are disabled, decisions about each checkpoint are hidden
    for step in data["decisions"]:
        if step["role"] == Role.ENABLE:
            made = bool(step["value"])
        hidden = step["dull"] or step["role"] in QUIET or (step["role"] == Role.CREATE and not made)
        if verbose or not hidden:
            mark = f" [{step['grade']}]" if step["grade"] in (Grade.READ, Grade.OURS) else ""
            pool = " (assumed pool)" if data["flags"]["assumed"] and _counts_free_ones(step) else ""
            table.add_row(step["rule"], Text(f"{step['says']}{pool}{mark}"))
    left = len(data["decisions"]) - table.row_count
    more = [Text(f" {counted(left, 'more decision')} (-v)", "dim")] if left else []
    return Group(*([table] if table.row_count else [Text("no decisions with an effect", "dim")]), *more)


def _counts_free_ones(step: Mapping[str, Any]) -> bool:
    """True if the sentence of a decision states how many blocks or slots of the pool are free."""
    return "free" in step["because"] and "free" in step["says"]


def _verdict(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Yield the answer and its cost in a line, and the fault of a wrong answer."""
    style = style_of(data["verdict"])
    known = " (known bug, as expected)" if data["known_bug"] and data["equal_cold"] is False else ""
    yield Text(f"{answer_text(data['verdict'])}, {cost_text(data)}{' (as expected)' if data['told'] else known}", style)
    if data["verdict"] != OK.name:
        rung = f" [{data['rung']}]" if data["rung"] in ("bits", "argmax") else ""
        yield indented(f"{data['fault']}{rung}", style)


def _tokens(data: Mapping[str, Any]) -> RenderableType:
    """Return the prompt length as a sum of kept, restored, loaded and evaluated tokens; of a request that ended early
    the part that was reused or evaluated. A server that empties a slot in the middle of a prompt begins it again, and
    counts what it had evaluated until then. vLLM counts a prompt that was loaded whole as reused, and evaluates its
    last token."""
    parts = (data["kept"], "kept"), (data["restored"], "restored"), (data["loaded"], "loaded")
    whole = " + ".join(f"{n} {name}" for n, name in (*parts, (data["prompt_n"], "evaluated")))
    reason = f" ({data['reason']})" if data["reason"] else ""
    done = data["cache_n"] + data["prompt_n"]
    part = f"{done} of " if done < data["prompt"] else ""
    line = Text(f"{part}{counted(data['prompt'], 'token')} = {whole}{reason}")
    if done > data["prompt"]:
        which = "the last one counted twice" if data["not_summed"] == COUNTED_TWICE else "some more than once"
        line = Text(f"{counted(data['prompt'], 'token')}, {which}: {whole} = {done}{reason}")
    if not data["best"]:
        return line
    right = " with a correct answer" if first_evaluated(data) > data["held"] else ""
    return Group(line, indented(f"at most {data['held']} reusable{right}; {data['best']} evaluated before", "dim"))


def _ranges(reasons: Sequence[dict[str, Any]]) -> WholeTable:
    """Return a table with a row for every range of evaluated tokens: positions and reason."""
    table = WholeTable(show_header=False)
    table.add_column(justify="right")
    for entry in reasons:
        where = []
        if entry["at"] >= 0:
            where.append(f"at request {entry['at']}")
        if entry["rule"]:
            where.append(entry["rule"])
        text = entry["why"] + (f" ({', '.join(where)})" if where else "")
        table.add_row(f"{entry['start']}..{entry['stop'] - 1}", Text(text, "yellow" if entry["rule"] else "dim"))
        if entry["survives"]:
            table.add_row("", Text(f"reused under {short_names(entry['survives'])}", "dim"))
        repair = repair_among(entry["rule"], entry["survives"])
        if repair is not None:
            table.add_row("", Text(f"pull request {repair.pull}, not released; case {repair.case}", "dim"))
    return table
