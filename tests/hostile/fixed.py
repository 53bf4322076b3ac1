"""Fixed cases: mutants in a file, with their expected ends."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.hostile.mutant import CLI, Mutant
from tests.hostile.nasty import Raw
from tests.hostile.written import to_json

FILE = Path(__file__).with_name("cases.toml")
RECORDING = {
    "engine": "llama.cpp", "commit": "", "profile": "head", "model": "llama", "name": "t", "flags": [], "server": {},
    "inexact": [],
    "steps": [{"i": 0, "op": "completion", "request": {"prompt": [5, 6, 7], "n_predict": 1}, "response": {"cache_n": 0},
               "events": []}],
}  # fmt: skip


def cases():
    """Return the tables of the file."""
    return tomllib.loads(FILE.read_text("utf-8"))["case"]


def made(case):
    """Return the mutant of a table."""
    argv = list(case.get("argv", ()))
    for word, text, times in case.get("times", ()):
        argv[argv.index(word)] = text * times
    if "text" in case:
        data = "".join(text * times for text, times in case["text"])
    else:
        data = _changed(case.get("change", {}))
    given_to = case.get("reads", CLI)
    return Mutant("fixed", 0, tuple(argv), {case.get("file", "in.json"): data.encode()}, given_to=given_to)


def _changed(changes):
    """Return the recording as JSON, with other values at these paths."""
    tree = json.loads(json.dumps(RECORDING))
    for path, value in changes.items():
        node = tree
        *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in way:
            node = node[step]
        node[last] = Raw(value)
    return to_json(tree)
