"""What ``advise`` states about any conversation is what the commands that it prints show."""

from __future__ import annotations

import io
import json
import shlex
from contextlib import redirect_stderr, redirect_stdout

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.engines.registry import ENGINES
from cachesim.judging.reproduce_command import case_words
from cachesim.tools.search.drawn_conversation import draw_conversation

pytestmark = pytest.mark.long
EXAMPLES = 8


def printed(*words):
    """Return the JSON that a command prints."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()):
        main([*words, "--json", "-q"])
    return json.loads(out.getvalue())


def arguments(engine, profile, seed):
    """Return the arguments of a drawn case; a case without a line, or for another version, is drawn again."""
    try:
        words = case_words(draw_conversation(seed, engine).scenario(profile), profile)
    except BadInput:
        words = []
    assume(len(words) > 3)
    return words


@pytest.mark.parametrize("engine", ENGINES)
def test_each_command_of_an_advice_shows_its_numbers(engine):
    @settings(max_examples=EXAMPLES)
    @given(st.sampled_from([*ENGINES[engine].profiles]), st.integers(0, 2**32))
    def holds(profile, seed):
        found = printed("advise", *arguments(engine, profile, seed), "--seconds", "600")
        for data in found.get("advise", ()):                    # a server that this version cannot start is refused
            for told in (*data["advice"], *data["traps"]):
                [again] = printed(*shlex.split(told["command"])[1:], "--provenance")["runs"]
                assert [row["prompt_n"] for row in again["requests"]] == told["each"], told["command"]
                assert (again["broken"], again["profile"]) == (told["wrong"], told["profile"]), told["command"]
                assert told["saved"] == data["base"]["evaluated"] - sum(told["each"])
                assert told["wrong"] or not data["bound"]["holds"] or told["evaluated"] >= told["bound"]

    holds()
