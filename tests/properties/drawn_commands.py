"""Commands on drawn conversations: their arguments, and what they print."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

from hypothesis import assume

from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.judging.reproduce_command import case_words
from cachesim.tools.search.drawn_conversation import draw_conversation


class CommandResult(NamedTuple):
    """Exit code of a command, and the texts that it printed."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.stdout)


def run_command(*words: str) -> CommandResult:
    """Run a command in this process."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main([*words])
    return CommandResult(code, out.getvalue(), err.getvalue())


def drawn_arguments(engine: str, profile: str, seed: int) -> list[str]:
    """Return the line of a drawn conversation and its options. A conversation that has no line, or that the rule set
    does not support, is drawn again."""
    try:
        words = case_words(draw_conversation(seed, engine).scenario(profile), profile)
    except BadInput:
        words = []
    assume(len(words) > 3)
    return words
