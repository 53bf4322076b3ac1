"""Tests of ``lives``: each fault shows in exactly the stated versions.

Under the first and the last version of a range the request ends alike, and otherwise right outside of it.
"""

from __future__ import annotations

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.engines.registry import ENGINES
from tests.scenarios.test_corpus import CORPUS, SCENARIOS, shown

LIVING = [(name, k) for name, scenario in SCENARIOS.items() for k in range(len(scenario.lives))]
README = (CORPUS / "llama_cpp" / "README.md").read_text("utf-8")


def outcome(name: str, profile: str, number: int) -> tuple[int, bool | None, int] | None:
    """Return cached tokens, equality and status of a request; None if the version does not load the model."""
    try:
        return shown(name, profile).outcomes[number]
    except NotInBuild:
        return None


@pytest.mark.parametrize(("name", "k"), LIVING)
def test_a_fault_lives_from_here_to_there(name: str, k: int) -> None:
    scenario = SCENARIOS[name]
    number, first, until = scenario.lives[k]
    line = list(ENGINES[scenario.engine].line)
    last = until or line[-1]
    seen = outcome(name, last, number)
    if first:
        assert outcome(name, first, number) == seen
        start = line.index(first)
        assert start == 0 or outcome(name, line[start - 1], number) != seen
    end = line.index(last)
    assert end == len(line) - 1 or outcome(name, line[end + 1], number) != seen
    assert until != line[-1], "a life that has not ended has no `to`"


@pytest.mark.parametrize(("name", "k"), LIVING)
def test_the_table_of_faults_says_so_too(name: str, k: int) -> None:
    _, first, last = SCENARIOS[name].lives[k]
    since, until = first.partition("@")[2], last.partition("@")[2]
    ended, lasting = f"{since} to {until}".strip(), f"from {since} on" if since else "in every build"
    [row] = [line for line in README.splitlines() if line.startswith("| D") and f"({name})" in line] or [""]
    assert (ended if until else lasting) in row


def test_defects_live_somewhere() -> None:
    """Of the defects D1 to D24 all are in the table; those without a scenario say why."""
    rows = {line.split("|")[1].strip() for line in README.splitlines() if line.startswith("| D")}
    assert {f"D{n}" for n in range(1, 25)} <= rows
