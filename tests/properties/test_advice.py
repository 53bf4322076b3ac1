"""What ``advise`` states about any conversation is what the commands that it prints show."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.engines.registry import ENGINES
from tests.properties.drawn_commands import drawn_arguments, run_command

pytestmark = pytest.mark.long
EXAMPLES = 1


@pytest.mark.parametrize("engine", ENGINES)
def test_each_command_of_an_advice_shows_its_numbers(engine):
    @settings(max_examples=EXAMPLES)
    @given(st.sampled_from([*ENGINES[engine].profiles]), st.integers(0, 2**32))
    def holds(profile, seed):
        found = run_command("advise", *drawn_arguments(engine, profile, seed), "--seconds", "600", "--json").data
        for data in found.get("advise", ()):                    # a server that this version cannot start is refused
            for told in (*data["advice"], *data["traps"]):
                [again] = run_command(*shlex.split(told["command"])[1:], "--provenance", "--json").data["runs"]
                assert [row["prompt_n"] for row in again["requests"]] == told["each"], told["command"]
                assert (again["broken"], again["profile"]) == (told["wrong"], told["profile"]), told["command"]
                assert told["saved"] == data["base"]["evaluated"] - sum(told["each"])
                assert told["wrong"] or not data["bound"]["holds"] or told["evaluated"] >= told["bound"]

    holds()
