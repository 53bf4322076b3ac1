"""No command crashes on a drawn conversation, under any rule set of any engine."""

from __future__ import annotations

import io
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.judging.reproduce_command import case_words
from cachesim.tools.search.drawn_conversation import draw_conversation

pytestmark = pytest.mark.long
COMMANDS = {"run": ["-v"], "why": ["0"], "diff": [], "bisect": ["-v"]}
EXAMPLES = 15


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_with_an_answer_or_a_message(command, engine):
    profiles = st.sampled_from([*ENGINES[engine].profiles])

    @settings(max_examples=EXAMPLES)
    @given(profiles, profiles, st.integers(0, 2**32))
    def ends(profile, changed, seed):
        try:
            line, *words = case_words(draw_conversation(seed, engine).scenario(profile), profile)
        except BadInput:                    # the drawn conversation does not fit the drawn server
            assume(False)
        more = ["-p", changed] if command == "diff" else []
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            code = main([command, line, *COMMANDS[command], *words, *more])
        assert code != exits.CRASH, said.getvalue()

    ends()
