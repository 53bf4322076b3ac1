"""Tests of shrinking a scenario: the smallest line shows the original failure, not another failure."""

from __future__ import annotations

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.search import shrink_scenario
from cachesim.tools.search.property_failure import PropertyFailure
from cachesim.tools.search.shrink_scenario import ScenarioShrinking

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
