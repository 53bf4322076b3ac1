"""cachesim commands run in this process, which is quicker than a new process: their output, and their JSON.

The output in a document belongs to the rule set that it names. A test runs its command under that rule set, whichever
is the newest; ``make docs`` moves the documents to the newest one.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from typing import Any

from cachesim.cli.main import main
from cachesim.engines.registry import DEFAULT


def under_named(command: str, output: str) -> str:
    """Return a command without ``-p`` with the default engine's rule set that its output in a document names. Pipes
    stay at the end. ``bisect`` compares every rule set, and the newest rule set is the default: some commands repeat
    a ``-p`` that they were given."""
    first, *pipes = command.split(" | ")
    words = shlex.split(first)
    if words[:2] == ["cachesim", "bisect"]:
        return command
    named = [name for name in DEFAULT.line if re.search(rf"(?<!\S){re.escape(name)}(?![\w-])", output)]
    if named and named[-1] != DEFAULT.line[-1] and words[0] == "cachesim" and "-p" not in words:
        first = f"{first} -p {named[-1]}"
    return " | ".join([first, *pipes])


@cache
def run_here(command: str) -> str:
    """Return the output of a cachesim command in a pipe of 80 columns, without trailing spaces."""
    words = shlex.split(command)
    assert words[0] == "cachesim", command
    out, before = io.StringIO(), os.environ.pop("COLUMNS", None)
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main(words[1:])
    if before is not None:
        os.environ["COLUMNS"] = before
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


class Got:
    """JSON whose keys are attributes, for a run or a reply of a command. ``got[1]`` is its request 1."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __getattr__(self, key: str) -> Any:
        return _wrapped(self.data[key])

    def __getitem__(self, at: Any) -> Any:
        if isinstance(self.data, dict) and isinstance(at, int):
            return _wrapped(self.data["requests"][at])
        return _wrapped(self.data[at])

    def __call__(self, key: str) -> Any:
        """Return a number that a decision was based on: the first value with that name."""
        found = [decision["because"][key] for decision in self.data["decisions"] if key in decision["because"]]
        return found[0]

    def says(self, rule: str) -> str:
        """Return the sentence of the first decision by this rule or by a rule of this family."""
        return next(one["says"] for one in self.data["decisions"] if one["rule"].startswith(rule))

    def decided(self, rule: str) -> Any:
        """Return the value of the first decision by this rule or by a rule of this family."""
        return _wrapped(next(one["value"] for one in self.data["decisions"] if one["rule"].startswith(rule)))

    def lost(self, request: int) -> int:
        """Return the number of tokens that a request re-evaluated."""
        return sum(one["tokens"] for one in self.data["lost"] if one["request"] == request)


def _wrapped(value: Any) -> Any:
    return Got(value) if isinstance(value, dict) else value


def got(command: str, number: int = 0) -> Got:
    """Return the JSON of a command in provenance mode: its run or reply with this number."""
    data = json.loads(run_here(f"{command} --json --provenance"))
    for key in ("runs", "why"):
        if key in data:
            return Got(data[key][number])
    return Got(data)
