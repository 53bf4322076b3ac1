"""Printed reports of a run, and the sentences in them that its events contradict."""

from __future__ import annotations

import re
from typing import Any, Callable, Iterator, NamedTuple
from unittest.mock import patch

from cachesim.base import console
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.run_data import run_data
from cachesim.judging.unused_point import unused_points
from cachesim.judging.why_data import answer_data, with_search
from cachesim.scenarios.schema import Scenario
from cachesim.tools.run.run_table import run_report
from tests.sentences.claims import DECISIONS, LINES, REASONS, STATE, Place, false_claim
from tests.sentences.witness import RunFacts
from tests.unit.tools.run.made import why_report

WIDE = 3_000            # columns, so that no sentence is wrapped


class Found(NamedTuple):
    """Sentences of a run: how many were compared, and those that its events contradict, with their request."""

    compared: int
    false: list[tuple[int, str]]


def compare_sentences(scenario: Scenario, profile: str, change: Callable[[str], str] = str) -> Found:
    """Compare every sentence that ``run -v`` and ``why -v`` print about a run with its events. ``change`` alters each
    printed report, to plant a fault. Raise BadInput if the profile cannot run the scenario."""
    run = run_judged(scenario, profile, "provenance")
    facts = RunFacts(scenario, profile)
    found = [pair for text, number in _reports(run) for pair in _sentences(change(text), number, facts)]
    return Found(len(found), [(at, text) for at, text, false in found if false])


def _reports(run: Run) -> Iterator[tuple[str, int]]:
    """Yield the printed reports of a run: that of ``run -v`` (request -1), and of ``why -v`` for each request. The
    dependence on outcomes that were never seen, which takes many runs, is left out."""
    with patch.object(console, "WIDTH", WIDE), patch("cachesim.judging.run_data.predicted", return_value=[]):
        yield console.as_text(run_report(run_data(run), verbose=1)), -1
        for number in range(len(run.requests)):
            answer = {**answer_data(run, number), "predicted": []}
            data = with_search(answer, run, number, (), None, unused_points(run, number), settings=None)
            yield console.as_text(why_report(data, verbose=1)), number


def _sentences(report: str, number: int, facts: RunFacts) -> Iterator[tuple[int, str, bool]]:
    """Yield the sentences of a report that claim something: request, text, whether the run contradicts it."""
    for line in map(str.strip, report.splitlines()):
        for at, text, table in _claims(line, number, facts):
            false = false_claim(text, table, at)
            if false is not None:
                yield at.number, text, false


def _claims(line: str, number: int, facts: RunFacts) -> Iterator[tuple[Place, str, Any]]:
    """Yield the sentences of a line, each with its request and its table of patterns."""
    if match := re.match(r"after request (\d+): (.*)", line):
        for part in match[2].split("; "):
            yield Place(facts, int(match[1])), f"{part}", STATE
    elif match := re.match(r"request (\d+): \d+ tokens? re-evaluated", line):
        yield Place(facts, int(match[1])), line, LINES
    elif number >= 0:
        rule, _, text = line.partition(" ")
        if re.fullmatch(r"(?:[A-Z]+-)+[\w.-]+", rule):
            yield Place(facts, number, rule), re.sub(r" \[(?:read|ours)\]$", "", text.strip()), DECISIONS
        else:
            yield Place(facts, number), line, LINES
        if match := re.fullmatch(r"(?:\d+ of )?\d+ tokens? = .* evaluated(?: \((.*)\))?", line):
            reason = match[1] or ""
            yield Place(facts, number), reason.removesuffix(", disconnected"), REASONS
