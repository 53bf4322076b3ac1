"""A run has the same numbers in every output: in its data, its report, the command that repeats it, ``why``, ``diff``,
its page, its trace, and the memory that the page shows."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from functools import lru_cache
from html import unescape
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.judging.judged_run import Run, run_judged
from cachesim.judging.reproduce_command import case_words
from cachesim.judging.run_data import run_data
from cachesim.judging.why_data import answer_data
from cachesim.tools.picture.chrome_trace import chrome_trace
from cachesim.tools.picture.event_stream import EventWalk
from cachesim.tools.picture.page import page
from cachesim.tools.picture.picture_options import PictureOptions
from cachesim.tools.picture.picture_recorder import PicturedRun, PictureRecorder
from cachesim.tools.picture.report_html import report_html
from cachesim.tools.picture.scene import Scene
from cachesim.tools.run.diff_report import diff_data
from cachesim.tools.run.run_table import run_report
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.properties.drawn_commands import run_command

EXAMPLES = pytest.mark.parametrize("examples", [1, pytest.param(3, marks=pytest.mark.long)])
REUSED = ("kept", "moved", "restored", "loaded")
EVALUATED = ("evaluated", "again")
COLUMNS = {"#": "i", "prompt": "prompt", "kept": "kept", "restored": "restored", "loaded": "loaded",
           "evaluated": "computed"}  # fmt: skip
"""Column of the report -> name in the data of a request."""
SAME = ("cache_n", "prompt_n", "kept", "restored", "loaded", "best", "held", "verdict", "reason", "equal_cold", "fault")
"""Numbers and texts of a request that ``why`` has, too."""


class Drawn(NamedTuple):
    """Drawn run with what a picture shows of it. ``lost``: tokens charged to each request."""

    run: Run
    data: dict
    scene: Scene
    walk: EventWalk

    @property
    def lost(self):
        return [sum(charge["tokens"] for charge in self.data["lost"] if charge["request"] == row["i"])
                for row in self.data["requests"]]  # fmt: skip


@lru_cache(maxsize=8)
def drawn_run(engine, profile, seed):
    """Return the run of a conversation; a conversation that the rule set does not support is drawn again. The first
    draw of an engine is the same in every test."""
    recorder = PictureRecorder(profile, events=True)
    try:
        case = draw_conversation(seed, engine).scenario(profile)
        run = run_judged(case, profile, "provenance", watcher=recorder)
    except BadInput:
        assume(False)
    pictured = PicturedRun(case, run_data(run), recorder)
    return Drawn(run, pictured.data, pictured.scene(), pictured.told().walk)


def check_runs(engine, examples, check):
    """Check runs of drawn conversations under any rule set of an engine."""
    @settings(max_examples=examples)
    @given(st.sampled_from([*ENGINES[engine].profiles]), st.integers(0, 2**32))
    def holds(profile, seed):
        check(drawn_run(engine, profile, seed))

    holds()


def tables(html):
    """Return the tables of a page: rows of the texts of their cells, the heads first."""
    def texts(row):
        return [unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)]

    each = re.findall(r"<table>(.*?)</table>", html, re.S)
    return [[texts(row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.S)] for table in each]


def number(text):
    """Return the number of a cell; a dot stands for 0."""
    return 0 if text == "·" else int(text.replace(",", ""))


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_the_printed_command_repeats_the_run(engine, examples):
    def check(drawn):
        words = case_words(drawn.run.scenario, drawn.run.profile)
        assume(len(words) > 3)                                      # a line can express it
        [again] = run_command("run", *words, "--json", "--provenance").data["runs"]
        expected = json.loads(json.dumps(drawn.data))
        for row in (*again["requests"], *expected["requests"]):
            del row["client"], row["why"]                           # a line has no comments and numbers its words anew
        named = ("scenario", "title", "titles", "why")
        assert {**again, **{name: expected[name] for name in named}} == expected

    check_runs(engine, examples, check)


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_why_explains_every_evaluated_token(engine, examples):
    def check(drawn):
        for row in drawn.data["requests"]:
            if row["how"] in ("completion", "together"):
                why = answer_data(drawn.run, row["i"])
                assert {name: why[name] for name in SAME} == {name: row[name] for name in SAME}
                parts = why["computed"]
                assert all(one["stop"] == other["start"] for one, other in pairwise(parts))
                assert row["not_summed"] or sum(one["stop"] - one["start"] for one in parts) == row["prompt_n"]

    check_runs(engine, examples, check)


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_the_ranges_of_a_picture_cover_the_prompt(engine, examples):
    def check(drawn):
        for row, lost, found in zip(drawn.scene.rows, drawn.lost, drawn.data["requests"], strict=True):
            edges = [0, *(part.stop for part in row.stretches)]
            assert [part.start for part in row.stretches] == edges[:-1] and edges == sorted({*edges})
            tokens = {kinds: sum(part.stop - part.start for part in row.stretches if part.origin in kinds)
                      for kinds in (REUSED, EVALUATED, ("again",))}  # fmt: skip
            assert tokens["again",] == lost
            if found["status"] == 200 and not found["not_summed"]:
                assert (tokens[REUSED], tokens[EVALUATED]) == (found["cache_n"], found["prompt_n"])

    check_runs(engine, examples, check)


@EXAMPLES
@pytest.mark.parametrize("engine", ENGINES)
def test_report_page_and_trace_have_the_numbers_of_the_data(engine, examples):
    def check(drawn):
        rows = drawn.data["requests"]
        head, *cells = tables(report_html(run_report(drawn.data), "requests"))[0]
        for row, texts in zip(rows, cells, strict=True):
            shown = dict(zip(head, texts, strict=True))
            assert {name: number(shown[name]) for name in COLUMNS} == {name: row[key] for name, key in COLUMNS.items()}
        _, *shown = tables(page([drawn.scene], PictureOptions()))[0]
        expected = [[row["i"], row["cache_n"], row["prompt_n"], lost]
                    for row, lost in zip(rows, drawn.lost, strict=True)]  # fmt: skip
        assert [[number(cells[0]), *map(number, cells[3:6])] for cells in shown[: len(rows)]] == expected
        if len(rows) > 1:
            _, *sums = map(sum, zip(*expected, strict=True))
            assert [number(text) for text in shown[-1][3:6]] == sums
        check_trace(drawn)

    check_runs(engine, examples, check)


def check_trace(drawn):
    """Check that a trace shows each request, and that its parts fill it."""
    events = [event for event in json.loads(chrome_trace([drawn.scene]))["traceEvents"] if event["ph"] == "X"]
    requests = [event for event in events if event["name"].startswith("#")]
    assert [event["args"]["evaluated"] for event in requests] == [row["prompt_n"] for row in drawn.data["requests"]]
    for event in requests:
        parts = [part for part in events if part not in requests and event["tid"] == part["tid"]
                 and event["ts"] <= part["ts"] < event["ts"] + event["dur"]]  # fmt: skip
        assert sum(part["dur"] for part in parts) == event["dur"]


@EXAMPLES
@pytest.mark.parametrize("engine", [name for name, engine in ENGINES.items() if engine.manual.slots])
def test_the_memory_of_a_page_is_that_of_the_data(engine, examples):
    def check(drawn):
        steps = drawn.run.scenario.steps
        assume(not any(step.together or (step.action and step.action.do == "restart") for step in steps))
        for row, end in zip(drawn.data["requests"], drawn.walk.ends, strict=True):
            if row["slot_tokens"] is not None and row["id_slot"] >= 0:
                held = last(drawn.walk.held[row["id_slot"]], end)
                assert held.tokens == row["slot_tokens"]
                assert [point[0] for point in held.checkpoints] == row["checkpoints"]
                assert sorted(tokens for _, tokens in last(drawn.walk.entries, end)) == sorted(row["entry_tokens"])

    check_runs(engine, examples, check)


def last(changes, end):
    """Return the value before the event ``end``."""
    return changes[bisect_right([when for when, _ in changes], end - 1) - 1][1]


@pytest.mark.parametrize("examples", [2, pytest.param(4, marks=pytest.mark.long)])     # few of two differ
@pytest.mark.parametrize("engine", ENGINES)
def test_diff_names_the_requests_whose_clients_see_a_difference(engine, examples):
    profiles = st.sampled_from([*ENGINES[engine].profiles])

    @settings(max_examples=examples)
    @given(profiles, profiles, st.integers(0, 2**32))
    def holds(profile, changed, seed):
        try:
            first, second = (run_judged(draw_conversation(seed, engine).scenario(name), name, "provenance")
                             for name in (profile, changed))  # fmt: skip
        except BadInput:
            assume(False)
        pairs = zip(run_data(first)["requests"], run_data(second)["requests"], strict=True)
        differ = [a["i"] for a, b in pairs if a["client"] != b["client"]]
        assert [found["request"] for found in diff_data(first, second)["observed"]] == differ

    holds()
