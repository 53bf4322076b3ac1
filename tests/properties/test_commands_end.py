"""No command crashes on a drawn conversation, under any rule set of any engine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base import exits
from cachesim.engines.registry import ENGINES
from tests.properties.drawn_commands import drawn_arguments, run_command

pytestmark = pytest.mark.long
COMMANDS = {"run": ["-v"], "why": ["0"], "diff": [], "bisect": ["-v"]}
EXAMPLES = {"run": 2, "why": 2, "diff": 2, "bisect": 1}       # a bisection runs all versions


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_an_answer_or_a_message(command, engine):
    profiles = st.sampled_from([*ENGINES[engine].profiles])

    @settings(max_examples=EXAMPLES[command])
    @given(profiles, profiles, st.integers(0, 2**32))
    def ends(profile, changed, seed):
        line, *words = drawn_arguments(engine, profile, seed)
        more = ["-p", changed] if command == "diff" else []
        result = run_command(command, line, *COMMANDS[command], *words, *more)
        assert result.code != exits.CRASH, result.stderr

    ends()
