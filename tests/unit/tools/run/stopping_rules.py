"""A file of rules that raises an interrupt or an error at a request of the run."""

from __future__ import annotations

from pathlib import Path

RULES = """
import os
from dataclasses import replace
from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES
from cachesim.engines.rule import Decision, Role, rule
from cachesim.base.errors import Terminated

B = PROFILES[NEWEST]
requests = []

@rule("MY-STOP", Role.PREFIX, "a test")
def stop(*args) -> Decision:
    '''Ends at a request.'''
    requests.append(args)
    if len(requests) == {answered} + 1:
        raise {error}
    return B.n_past(*args)

MINE = replace(B, name="llama_cpp@stop", n_past=stop)
"""


def stopping_rules(folder: Path, answered: int, error: str = "KeyboardInterrupt") -> str:
    """Write rules under which so many requests are answered, and the next one raises; return the name of the file."""
    file = folder / "stop.py"
    file.write_text(RULES.format(answered=answered, error=error))
    return str(file)
