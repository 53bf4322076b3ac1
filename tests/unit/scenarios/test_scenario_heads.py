"""The head of a scenario has what the whole scenario has."""

from __future__ import annotations

from pathlib import Path

import pytest

from cachesim.scenarios.scenario_heads import ScenarioHead, grouped, read_heads
from cachesim.scenarios.symptoms import SYMPTOMS
from tests.scenarios.whole import corpus, heads

TEXT = """id = "x"
title = "T"
source = ["s"]
engine = "llama_cpp"
model = "A"
profiles = [
  "llama_cpp@b1",
]
why = \"\"\"%s\"\"\"

[words]
A = 5

[[request]]
prompt = "A"
"""


def test_it_is_that_of_the_scenario():
    scenarios = corpus()
    assert read_heads([Path(scenario.file) for scenario in scenarios]) == [
        ScenarioHead(id=one.id, title=one.title, why=one.why, source=one.source, engine=one.engine, model=one.model,
                     profiles=one.profiles, symptom=one.symptom, file=str(one.file), requests=len(one.steps))
        for one in scenarios
    ]  # fmt: skip


@pytest.mark.parametrize("why", ["w", "lines:\n[one]\n[two]\n", "a table [[request]]", "as a line:\n[[request]]\n"])
def test_a_line_that_looks_like_a_table_does_not_end_it(tmp_path, why):
    file = tmp_path / "x.toml"
    file.write_text(TEXT % why, "utf-8")
    head, = read_heads([file])
    assert (head.why, head.profiles, head.symptom, head.requests) == (why, ("llama_cpp@b1",), "", 1)


def test_groups_come_in_the_order_of_what_is_grouped():
    assert list(grouped(sorted(heads(), key=lambda one: list(SYMPTOMS).index(one.symptom)))) == list(SYMPTOMS)
