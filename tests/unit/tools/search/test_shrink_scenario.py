"""Tests of shrinking a scenario: the smallest line shows the original failure, not another failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.base.console import as_text
from cachesim.base.errors import BadInput
from cachesim.judging.failure_chain import explained
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.notation.tree import LineRequest, Piece
from cachesim.tools.search import shrink_scenario
from cachesim.tools.search.drawn_conversation import DrawnConversation
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.shrink_scenario import ScenarioShrinking, shrink_report

HEAD = "llama_cpp@b10587"


def search(monkeypatch, line, found):
    """Shrink a line with the given findings (kinds, by the number of its steps)."""
    def shown(case, profile, properties, judges, mode):
        return [PropertyFailure("survives", 0, kind, {"error": kind}) for kind in found(len(case.asked))]

    monkeypatch.setattr(shrink_scenario, "shown", shown)
    made = ScenarioShrinking(from_line(line), HEAD, ("survives",), "none", 400)
    made.run(lambda: None)
    return made


@pytest.mark.parametrize(("found", "steps"), [
    (lambda n: ["this"], 1),
    (lambda n: ["this"] if n >= 2 else ["that"], 2),                # another failure of the same property
    (lambda n: ["that", "this"] if n < 3 else ["this", "that"], 1),  # both: the order says nothing
    (lambda n: ["this"] if n >= 3 else [], 3),
])  # fmt: skip
def test_the_same_failure_is_left(monkeypatch, found, steps):
    data = search(monkeypatch, "A9/B9/C9", found).data()
    assert (data["kind"], data["requests"], data["longest"]) == ("this", steps, 1)
    assert data["before"] == {"requests": 3, "longest": 9}


def test_what_else_is_wrong_is_told_once(monkeypatch):
    data = search(monkeypatch, "A9", lambda n: ["this", "that", "that"]).data()
    assert [one["kind"] for one in data["others"]] == ["that"]


def test_a_case_whose_line_is_not_valid_shows_nothing(monkeypatch):
    made = search(monkeypatch, "A9/B9", lambda n: ["this"])

    def refused(*_):
        raise BadInput("not a line")

    monkeypatch.setattr(shrink_scenario, "shown", refused)
    assert made._again(made.case) == []
    assert made.data()["kind"] == "this"


def test_a_report_counts_requests_tokens_and_tries(monkeypatch):
    data = search(monkeypatch, "A9/B1", lambda n: ["this", "that"] if n >= 2 else ["this"]).data()
    assert data["before"] == {"requests": 2, "longest": 9} and data["requests"] == 1
    sizes = [(1, (2, 9), "shrunk from 2 steps (longest 9 tokens) to 1 (longest 1) in 1 try"),
             (2, (1, 1), "shrunk from 1 step (longest 1 token) to 1 (longest 1) in 2 tries")]  # fmt: skip
    for tries, before, said in sizes:
        counts = {"requests": before[0], "longest": before[1]}
        text = as_text(shrink_report(explained({**data, "tries": tries, "before": counts}, data["profile"],
                                               data["step"], data["text"])))  # fmt: skip
        assert said in text and "also fails (not shrunk): survives (" in text
        assert text.startswith(f"{data['profile']}  survives: ")


def test_a_shrunk_case_has_the_command_that_runs_it(monkeypatch):
    data = search(monkeypatch, "A9/B9", lambda n: ["this"]).data()
    assert data["command"].startswith(f"cachesim run {data['line']} -p {HEAD} --model {data['model']}")


@pytest.mark.parametrize(("name", "properties"), [
    ("survives", ("survives",)), ("simulator", ("answered", "survives")), ("", ("answered", "survives")),
])  # fmt: skip
def test_the_property_of_the_first_finding_is_sought_again(monkeypatch, name, properties):
    found = [PropertyFailure(name, 0, "k", {"error": "k"})] * bool(name)
    monkeypatch.setattr(shrink_scenario, "shown", lambda *given: found)
    made = ScenarioShrinking(from_line("A9"), HEAD, ["answered", "survives"], "none", 5)
    assert (made.found, made.properties) == (found, properties)


@pytest.mark.parametrize(("found", "unset", "is_undecided"), [
    ([], True, True), ([], False, False), (["this"], True, False),
])  # fmt: skip
def test_nothing_found_is_undecided_if_a_number_was_never_written(monkeypatch, found, unset, is_undecided):
    made = search(monkeypatch, "A9", lambda n: found)
    asked = []
    monkeypatch.setattr(shrink_scenario, "observe_run", lambda *given, **more: asked.append((given[1:], more))
                        or SimpleNamespace(unset=unset))  # fmt: skip
    assert bool(made.is_undecided) is is_undecided
    assert asked == [((HEAD, {}), {"mode": "none"})] * (not found)


def test_every_try_is_counted(monkeypatch):
    ticks = []
    monkeypatch.setattr(shrink_scenario, "shown",
                        lambda *given: [PropertyFailure("survives", 0, "k", {"error": "k"})])  # fmt: skip
    made = ScenarioShrinking(from_line("A9/B9"), HEAD, ("survives",), "none", 400)
    made.run(lambda: ticks.append(1))
    assert len(ticks) == made.search.tries > 1


def test_a_case_is_run_as_its_line_reads():
    step = LineRequest((Piece("A", start=0, stop=9), Piece("B", stop=4)))
    typed = shrink_scenario._typed(DrawnConversation("llama_cpp", "A", {}, {"A": 9, "B": 7, "C": 3}, (step,), 0))
    assert (typed.words, typed.asked) == ({"A": 9, "B": 7}, (LineRequest((Piece("A"), Piece("B", stop=4))),))
