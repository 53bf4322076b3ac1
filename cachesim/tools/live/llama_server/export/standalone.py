"""A shell script that needs nothing but llama-server and a python3 without packages.

It contains a program in Python: the case, the code of ``talk``, ``tiny_gguf`` and ``case_program``, the tiny models.
"""

from __future__ import annotations

from typing import Iterator

from cachesim import __version__
from cachesim.tools.live.llama_server import tiny_gguf
from cachesim.tools.live.llama_server.export import case_program, talk
from cachesim.tools.live.llama_server.export.program_text import assignment, code_of, group_lines, models_text, one_line
from cachesim.tools.live.llama_server.export.script import Act, Script, name_of

END = "END_OF_PROGRAM"
MODEL = "# The tiny model: keys of its file, tensors with deviation and mean of their values"
CASE = ("FLAGS", "COLD_FLAGS", "CONSTANT", "WORDS", "SPELLED", "EXPECTED", "TOLERANCE")
SETTINGS = """\
# LLAMA_SERVER=build/bin/llama-server sh FILE
# Needs only that server and a python3 without packages: it writes a tiny model with random weights (below), sends the
# requests, then sends each again to a server without a cache. Other settings, as variables of the environment:
#   MODELS=FOLDER  keep the model there       TOLERANCE=X  differences of log-probabilities up to this are rounding
#   SEED=N         use other tokens           FIRST=N      first token that is used
#   WITHIN=S       seconds for one request    DELAY=S      seconds for an iteration, between requests sent together
#   PYTHON=PATH    the python3
# Exit status: 1 the fault shows, 0 it does not, 2 the server does not start."""


def standalone_script(script: Script) -> str:
    """The text of the script."""
    imports, code = code_of(talk, tiny_gguf, case_program)
    lines = ["#!/bin/sh", *_comment(script), f"exec \"${{PYTHON:-python3}}\" - <<'{END}'"]
    lines += ["from __future__ import annotations", "", *imports, "", "# The case", "", *_case(script), "", ""]
    lines += [code.rstrip(), "", "", MODEL]
    lines += [models_text(script), f"sys.exit(run_case(ExportedCase(MODELS, {', '.join(CASE)}, history)))"]
    return "\n".join([*lines, END, ""])


def _comment(script: Script) -> Iterator[str]:
    scenario = script.scenario
    yield f"# {one_line(scenario.title)}"
    yield f"# Made by cachesim {__version__} from {one_line(name_of(scenario))}, expected numbers: {script.profile}."
    for number in script.broken:
        yield f"# Expected: request {number}: {one_line(script.expected[number].fault)}"
    for note in script.notes:
        yield f"# Not as in the simulator: {one_line(note)}."
    yield SETTINGS


def _case(script: Script) -> Iterator[str]:
    """The assignments that describe the case, and the function that plays it."""
    expected = {one.number: script.expected[one.number] for one in script.asks}
    yield assignment("FLAGS", list(script.flags))
    yield assignment("COLD_FLAGS", list(script.cold_flags))
    yield assignment("CONSTANT", list(script.constant))
    yield assignment("WORDS", {word: list(tokens) for word, tokens in script.words.items()})
    yield assignment("SPELLED", sorted(script.spelled))
    yield "# Number of the request: tokens reused, tokens evaluated"
    yield assignment("EXPECTED", {number: (one.cache_n, one.prompt_n) for number, one in expected.items()})
    yield assignment("TOLERANCE", script.tolerance)
    yield "\n\ndef history(talk, server, w):"
    yield '    """Send the requests. Answers take the place of tokens of the words ``w``."""'
    for group in script.groups:
        if isinstance(group, Act) and group.do == "restart":
            flags = "FLAGS" if group.flags is None else repr(list(group.flags))
            yield f"    talk.url = server.start(*{flags})"
        else:
            yield from (f"    {line}" for line in group_lines(group))
