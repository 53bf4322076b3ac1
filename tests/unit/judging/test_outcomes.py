"""Tests that a change of each observable is found, end to end: a rule set with one altered rule, run and compared."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import wraps
from typing import Any, Callable, NamedTuple

import numpy as np
import pytest

from cachesim.cli.main import main
from cachesim.engines.base import Answer
from cachesim.engines.registry import ENGINES
from cachesim.engines.rule import Decision
from cachesim.engines.shared.timeline import Timeline
from cachesim.events import Event
from cachesim.judging.find_change import bisect
from cachesim.judging.judged_run import run_judged
from cachesim.judging.outcomes import (
    CLIENT,
    LOG,
    LOG_ORDER,
    LogLine,
    StepOutcome,
    client_digest,
    differences,
    differences_of_engines,
    log_lines,
    observed,
    value_text,
)
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.diff_report import observed_data
from tests.unit.tools.run.made import judgement

BASE = {"llama_cpp": "llama_cpp@b11549", "ik_llama": "ik_llama@main", "mlx_lm": "mlx_lm@0.32.2"}
ONE: dict[str, Any] = {"parallel": 1}
MTP: dict[str, Any] = {"parallel": 1, "spec_type": "draft-mtp"}


class Planted(NamedTuple):
    """A change of a rule: ``change`` (value, arguments) -> another value, or another number; the observable that it
    changes, and the requests that show it."""

    observable: str
    line: str
    field: str
    change: Any
    server: dict[str, Any] = ONE
    model: str = "A"
    engine: str = "llama_cpp"


def altered(rule: Callable[..., Decision], change: Callable[..., Any]) -> Callable[..., Decision]:
    """Return the rule with other values."""

    @wraps(rule)
    def other(*args: Any, **named: Any) -> Decision:
        decision = rule(*args, **named)
        return replace(decision, value=change(decision.value, *args))

    other.rule = f"{rule.rule}-ALTERED"                                          # type: ignore[attr-defined]
    return other


def tables(case: Planted, name: str = ""):
    """Return the rule set and the rule set with the altered rule, which has this name."""
    base = ENGINES[case.engine].rules(BASE[case.engine])
    old: Any = base.fields()[case.field]
    new = altered(old, case.change) if callable(case.change) else case.change
    return base, base.changed({case.field: new, "name": name or base.name})


def scenario_of(case: Planted):
    scenario = from_line(case.line, model=case.model, profiles=(BASE[case.engine],), server=case.server)
    if case.observable == "completions":                   # a decision between two prompts
        step = scenario.steps[0]
        asked = replace(step.request, kind="decision", others=((*step.request.prompt[:-1], 5),))
        return replace(scenario, steps=(replace(step, request=asked),))
    return scenario


def runs(case: Planted):
    return [run_judged(scenario_of(case), BASE[case.engine], "provenance", table=table) for table in tables(case)]


def _first_token_of_five(value, n_gen, n_predict, *_):
    return ("limit", False) if n_predict == 5 else value


CASES = [
    Planted("died", "A20>8{drafts=2:2}", "spec_room", lambda value, *_: "GGML_ASSERT(false)", MTP, "A+M"),
    Planted("answered", "A90/B20{together}", "ckpt_break", lambda value, *_: True, {"parallel": 2, "batch_size": 32}),
    Planted("status", "A20/{save@0 f}/{restore@0 f}", "slot_id", lambda value, *_: None),
    Planted("error_kind", "A20>5/B20", "task_whole", lambda value, *_: "too large"),
    Planted("error", "A300/{save@0 f}/{restart ctx_size=256}/{restore@0 f}", "restore_failed",
            lambda value, *_: ("other text", value[1])),
    Planted("cancelled", "A20>30{cancel_after=5}", "end", lambda value, *_: ("limit", False)),
    Planted("equal_cold", "A60/A[:40].B30", "n_past", lambda value, *_: value and value + 5),
    Planted("cache_n", "A60/A.B9", "n_past", lambda value, *_: max(0, value - 10)),
    Planted("prompt_n", "A60/A.B9", "n_past", lambda value, *_: max(0, value - 10)),
    Planted("tokens", "A20>5", "end", lambda value, n_gen, *_: ("limit", False) if n_gen == 3 else value),
    Planted("predicted_n", "A20>5", "end", lambda value, n_gen, *_: ("limit", False) if n_gen == 3 else value),
    Planted("stop_type", "A20>5", "end", lambda value, *_: ("eos" if value[0] else "", False)),
    Planted("truncated", "A20>5", "end", lambda value, *_: (value[0], True)),
    Planted("tokens_cached", "A20>5", "undecoded", 1, {}, "A", "ik_llama"),
    Planted("draft_n", "A20>8{drafts=2:2}", "draft_max", lambda value, *_: min(value, 1), MTP, "A+M"),
    Planted("draft_n_accepted", "A20>8{drafts=3:1}", "spec_accept", lambda value, *_: True, MTP, "A+M"),
    Planted("completions", "A20", "shared", lambda value, *_: None, {"parallel": 2}),
    Planted("id_slot", "A20", "slot_select", lambda value, *_: value._replace(slot=0), {"parallel": 2}),
    Planted("place", "A20>3/B20>5{together}", "end", _first_token_of_five, {"parallel": 2}),
    Planted("logprobs", "A60/A[:40].B30", "n_past", lambda value, *_: value and value + 5),
    Planted("slot_tokens", "A20>5", "end", lambda value, n_gen, *_: ("limit", False) if n_gen == 3 else value),
    Planted("n_ctx", "A20", "slot_ctx", lambda value, *_: value - 1),
    Planted("n_saved", "A20/{save@0 f}", "slot_id", lambda value, *_: 1, {"parallel": 2}),
    Planted("n_written", "A20/{save@0 f}", "slot_file_header", 60),
    Planted("n_restored", "A20/{save@0 f}/B9/{restore@0 f}", "slot_id", lambda value, *_: 1, {"parallel": 2}),
    Planted("n_read", "A20/{save@0 f}/B9/{restore@0 f}", "slot_file_header", 60),
    Planted("n_erased", "A20/{erase@0}", "slot_id", lambda value, *_: 1, {"parallel": 2}),
]


def test_every_observable_has_a_planted_change():
    assert [case.observable for case in CASES] != [] and {case.observable for case in CASES} == {x.id for x in CLIENT}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.observable)
def test_a_planted_change_is_found_by_diff_bisect_and_folding(case):
    mine, theirs = runs(case)
    found = [seen["observable"] for one in observed_data(mine, theirs, False) for seen in one["differs"]]
    assert case.observable in found
    assert [client_digest(one) for one in mine.requests] != [client_digest(one) for one in theirs.requests]
    base, planted = tables(case, f"{BASE[case.engine]}-repaired")           # the name of a known rule set
    engine = replace(ENGINES[case.engine], profiles={base.name: base, planted.name: planted},
                     line=(base.name, planted.name), beside={}, when=Timeline())  # fmt: skip
    turns = [turn for course in bisect(scenario_of(case), engine) for turn in course.turns]
    assert case.observable in [seen.observable for turn in turns for seen in turn.differs]
    assert {change.field for turn in turns for cause in turn.causes for change in cause.changes} == {case.field}


LOGS = [
    Planted("log.error", "A150>99/B100>99{together}", "fatal_lines", ("{text}",),
            {"parallel": 2, "ctx_size": 256, "kv_unified": True}),
    Planted("log.ckpt_create", "A90/A.B9", "tail", 8, ONE, "GGGA"),
    Planted("log.new_prompt", "A20", "slot_ctx", lambda value, *_: value - 1),
    Planted("log.ckpt_invalidate", "S40.A90/S.B40", "erase_told", lambda value, *_: (), ONE, "GGGA"),
    Planted("log.pc_save", "A60/B60", "host_header", 8000000, ONE),
    Planted("log.launch", "A60", "silent", frozenset({"launch"}), ONE),
    Planted("log.release", "A60", "unlogged", {"release": frozenset({"n_tokens"})}, ONE),
    Planted("log.aborted", "A20>8{drafts=2:2}", "spec_room", lambda value, *_: "GGML_ASSERT(false)", MTP, "A+M"),
]


@pytest.mark.parametrize("case", LOGS, ids=lambda case: case.observable)
def test_a_planted_change_of_a_log_line_is_found_only_with_the_log(case):
    mine, theirs = runs(case)
    found = [seen["observable"] for one in observed_data(mine, theirs, True) for seen in one["differs"]]
    assert case.observable in found
    assert case.observable not in [
        seen["observable"] for one in observed_data(mine, theirs, False) for seen in one["differs"]]
    base, planted = tables(case, f"{BASE[case.engine]}-repaired")
    engine = replace(ENGINES[case.engine], profiles={base.name: base, planted.name: planted},
                     line=(base.name, planted.name), beside={}, when=Timeline())  # fmt: skip
    of_a_table = case.field in ("silent", "unlogged")       # its changes name the line of the log
    path = f"{case.field}.{case.observable.removeprefix('log.')}" if of_a_table else case.field
    turns = [turn for course in bisect(scenario_of(case), engine, log=True) for turn in course.turns]
    assert case.observable in [seen.observable for turn in turns for seen in turn.differs]
    assert {change.field for turn in turns for cause in turn.causes for change in cause.changes} == {path}


def printed_events(kind=Event):
    """Return all kinds of events that a server prints."""
    for one in kind.__subclasses__():
        if one.printed and one.ev:
            yield one
        yield from printed_events(one)


@pytest.mark.parametrize("kind", sorted(set(printed_events()), key=lambda kind: kind.ev), ids=lambda kind: kind.ev)
def test_every_number_of_every_line_counts(kind):
    values = dict.fromkeys(kind.__match_args__, 1)
    [line] = log_lines([kind(**values)], None)
    assert line.kind == kind.ev
    for name in set(values) - {"task"}:
        assert log_lines([kind(**{**values, name: 2})], None) != [line]


def test_a_log_that_differs_only_in_its_order():
    lines = LogLine("launch", {"slot": 0}), LogLine("release", {"slot": 0})
    [found] = differences(StepOutcome({}, lines), StepOutcome({}, lines[::-1]))
    assert (found.observable, found.a, found.b) == (LOG_ORDER, "launch release", "release launch")
    first, second = differences(StepOutcome({}, lines), StepOutcome({}))
    assert (first.observable, second.observable) == (f"{LOG}launch", f"{LOG}release")
    assert (first.a, first.b) == ("launch slot=0", None)


def test_the_most_important_observable_is_named_first(capsys):
    run = run_judged(from_line("A60/A.B9"), BASE["llama_cpp"], "provenance")
    outcome = observed(run, 1)
    other = StepOutcome({**outcome.client, "n_ctx": 5, "cache_n": 3, "status": 500})
    assert [one.observable for one in differences(outcome, other)] == ["status", "cache_n", "n_ctx"]
    argv = ["diff", "A130/A", "-p", "llama_cpp@b6685", "-p", "llama_cpp@b7789", "--model", "GGGA"]
    main([*argv, "--json"])
    (first, second) = json.loads(capsys.readouterr().out)["observed"]
    assert (first["request"], first["differs"][0]["observable"]) == (0, "id_slot")
    assert second["differs"][0]["observable"] == "equal_cold"
    main(argv)
    assert "request 0 id_slot: 0 -> 3 (also n_ctx)" in capsys.readouterr().out
    main([*argv, "--log", "--json"])
    assert any(seen["observable"].startswith(LOG) for one in json.loads(capsys.readouterr().out)["observed"]
               for seen in one["differs"])  # fmt: skip


def read(name, **fields):
    seen = next(one for one in CLIENT if one.id == name)
    return seen.read(judgement(**fields))


def test_each_completion_counts_and_a_dead_server_has_no_status():
    assert read("cache_n", cache_n=3, children=[Answer(0, reused={"slot": 5})]) == [3, 5]
    assert (read("status", died=True, status=200), read("status", died=False, status=200)) == (0, 200)


@pytest.mark.parametrize(("value", "text"), [
    (None, "nothing"), (3, "3"), ("a text", "a text"), ([1, 2, 3, 4], "[1, 2, 3, 4]"), ((1, 2), "(1, 2)"),
    ([1, 2, 3, 4, 5], "[1, 2, 3, 4, ... 5 in all]"), (tuple("abcdefg"), "[a, b, c, d, ... 7 in all]"), ([], "[]"),
])  # fmt: skip
def test_a_long_list_is_shown_by_its_length(value, text):
    assert value_text(value) == text


def test_servers_of_two_engines_are_compared_by_what_both_have():
    names = [seen.id for seen in CLIENT]
    a, b = (StepOutcome(dict.fromkeys(names, value)) for value in (0, 1))
    assert [one.observable for one in differences(a, b)] == names
    assert [one.observable for one in differences_of_engines(a, b)] == [
        "died", "answered", "status", "cancelled", "equal_cold", "cache_n", "prompt_n", "tokens", "predicted_n",
        "completions"]  # fmt: skip
    assert differences_of_engines(a, a) == []


def test_steps_that_a_client_cannot_tell_apart_have_one_digest_whatever_holds_their_numbers():
    plain, computed, other = judgement(cache_n=4), judgement(cache_n=np.int64(4)), judgement(cache_n=5)
    for one, tokens in ((plain, [7]), (computed, [np.int64(7)]), (other, [7])):
        one.answer.tokens = tokens
    assert client_digest(plain) == client_digest(computed) != client_digest(other) and len(client_digest(plain)) == 12
