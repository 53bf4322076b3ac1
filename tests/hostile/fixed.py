"""Fixed cases: mutants in a file, with their expected ends."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.hostile.kinds import mutant
from tests.hostile.mutant import CLI, Mutant
from tests.hostile.nasty import Raw
from tests.hostile.written import to_json

FILE = Path(__file__).with_name("cases.toml")
RECORDING = {
    "engine": "llama.cpp", "commit": "", "profile": "b10587", "model": "llama", "name": "t", "flags": [], "server": {},
    "inexact": [],
    "steps": [{"i": 0, "op": "completion", "request": {"prompt": [5, 6, 7], "n_predict": 1}, "response": {"cache_n": 0},
               "events": []}],
}  # fmt: skip


def cases():
    """Return the tables of the file."""
    return tomllib.loads(FILE.read_text("utf-8"))["case"]


def made(case):
    """Return the mutant of a table."""
    if "mutant" in case:
        kind, _, number = case["mutant"].partition(":")
        return mutant(kind, int(number))
    argv = list(case.get("argv", ()))
    for word, text, times in case.get("times", ()):
        argv[argv.index(word)] = text * times
    files = {name: _pieces(text) for name, text in case.get("files", {}).items()}
    if "bytes" in case:
        data = b"".join(bytes.fromhex(text) * times for text, times in case["bytes"])
    elif "text" in case:
        data = _pieces(case["text"])
    else:
        data = _changed(case.get("change", {})).encode()
    files = {case.get("file", "in.json"): data, **files}
    more = tuple(case.get("made", ())), case.get("reads", CLI), case.get("lines", 1)
    return Mutant("fixed", 0, tuple(argv), files, *more)


def _pieces(pieces):
    """Return the bytes of [TEXT, TIMES] pieces, with the number of the repetition for `{#}`."""
    texts = ("".join(text.replace("{#}", str(i)) for i in range(times)) if "{#}" in text else text * times
             for text, times in pieces)  # fmt: skip
    return "".join(texts).encode()


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
