"""Command ``cachesim scenarios [WORD...] [--symptom TEXT]``: list the bundled scenarios by symptom.

Other commands accept the id of a scenario in place of a file.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base import exits
from cachesim.base.console import say, say_json, show_paged
from cachesim.base.errors import NothingFound, counted, cut, nearest, quoted
from cachesim.base.layout import WholeTable
from cachesim.scenarios.scenario_heads import ScenarioHead, grouped
from cachesim.scenarios.separating_question import LIKELIEST, separating_question
from cachesim.scenarios.symptoms import SYMPTOMS
from cachesim.tools.run.arguments import add_json


def scenario_data(scenario: ScenarioHead) -> dict[str, Any]:
    """Return the description of a scenario as data. ``requests``: number of its steps."""
    return {
        "id": scenario.id, "title": scenario.title, "engine": scenario.engine, "model": scenario.model,
        "profiles": list(scenario.profiles), "source": list(scenario.source), "requests": scenario.requests,
        "file": scenario.file, "symptom": scenario.symptom,
    }  # fmt: skip


def scenario_list(scenarios: Sequence[ScenarioHead]) -> RenderableType:
    """Return their number by symptom, then ids and titles, grouped by symptom."""
    wide = max(len(scenario.id) for scenario in scenarios)
    groups = grouped(scenarios)
    numbers = ", ".join(f"{name or 'without a symptom'} {len(group)}" for name, group in groups.items())
    parts: list[RenderableType] = [Text(f"{counted(len(scenarios), 'scenario')}: {numbers}", "bold"), Text()]
    for name, group in groups.items():
        parts.append(Text.assemble((name, "bold cyan"), f"  {SYMPTOMS[name].text}" if name else ""))
        table = WholeTable(show_header=False)
        table.add_column(no_wrap=True, min_width=wide)
        for scenario in group:
            table.add_row(Text(scenario.id, "bold"), Text(scenario.title))
        parts += [table, Text()]
    return Group(*parts[:-1])


def likeliest_list(scenarios: Sequence[ScenarioHead]) -> RenderableType:
    """Return the first scenarios with their numbers, the question that separates them, and how to see the others."""
    first = scenarios[:LIKELIEST]
    table = WholeTable(show_header=False)
    table.add_column(justify="right", style="dim")
    table.add_column(no_wrap=True)
    for number, scenario in enumerate(first, 1):
        table.add_row(str(number), Text(scenario.id, "bold"), Text(scenario.title))
    names = dict.fromkeys(scenario.symptom for scenario in first)
    heads = [Text.assemble((name, "bold cyan"), f"  {SYMPTOMS[name].text}") for name in names if name]
    question = separating_question(first)
    numbers = {scenario.id: str(number) for number, scenario in enumerate(first, 1)}
    asked: list[RenderableType] = []
    if question is not None:
        answers = [f"{answer.text} ({', '.join(numbers[name] for name in answer.scenarios)})"
                   for answer in question.answers]  # fmt: skip
        asked = [Text.assemble((f"{question.text} ", "bold"), "; ".join(answers))]
    left = len(scenarios) - len(first)
    more = [Text(f"{counted(left, 'more scenario')} with --all", "dim")] if left else []
    return Group(*heads, table, *asked, *more)


def question_data(scenarios: Sequence[ScenarioHead]) -> dict[str, Any] | None:
    """Return the question that separates the first scenarios as data, None if there is none."""
    question = separating_question(scenarios[:LIKELIEST])
    if question is None:
        return None
    answers = [{"answer": answer.text, "scenarios": list(answer.scenarios)} for answer in question.answers]
    return {"text": question.text, "answers": answers}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("words", metavar="WORD", nargs="*", help="word that must occur in the id, title, engine, "
                        "model, profiles, symptom or source of a scenario")  # fmt: skip
    parser.add_argument("--symptom", metavar="TEXT", help="symptom in your own words, such as "
                        "'re-processes everything'")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="print every scenario with the symptom, not only the "
                        f"{LIKELIEST} likeliest")  # fmt: skip
    parser.add_argument("--folder", action="store_true", help="print only the folder of the scenarios")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.scenarios.corpus import corpus_root
    from cachesim.scenarios.load import find
    from cachesim.scenarios.scenario_heads import read_heads
    from cachesim.scenarios.scenario_search import matching

    root = corpus_root()
    if args.folder:
        say(str(root))
        return exits.HOLDS
    found = [scenario for scenario in read_heads(find([root])) if _fits(scenario, args.words)]
    if not found:
        from cachesim.scenarios.corpus import corpus_files

        parts = [name.split("-") for name in corpus_files()]
        known = dict.fromkeys("-".join(words[:n]) for words in parts for n in range(len(words), 0, -1))
        hint = nearest(args.words[0], known) if len(args.words) == 1 else ""
        raise NothingFound("no scenario contains all of: " + cut(", ".join(args.words)), hint=hint)
    if args.symptom is not None:
        found = matching(args.symptom, found)
    else:
        found.sort(key=lambda scenario: [*SYMPTOMS, ""].index(scenario.symptom))
    if not found:
        raise NothingFound(f"no scenario shows {quoted(args.symptom)}; symptoms are: {', '.join(SYMPTOMS)}")
    if args.json:
        question = None if args.symptom is None else question_data(found)
        say_json({"scenarios": [scenario_data(scenario) for scenario in found], "question": question})
    else:
        show_paged(scenario_list(found) if args.symptom is None or args.all else likeliest_list(found))
    return exits.HOLDS


def _fits(scenario: ScenarioHead, words: list[str]) -> bool:
    s = scenario
    text = "\n".join([s.id, s.title, s.engine, s.model, *s.profiles, s.symptom, *s.source]).casefold()
    return all(word.casefold() in text for word in words)
