"""Mutated folders of a search: its campaign, and the scenario files of its findings."""

from __future__ import annotations

import json
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.hostile.mutant import Mutant
from tests.hostile.tame import tame
from tests.hostile.trees import mutated
from tests.hostile.written import flipped, to_json, to_toml

SEARCH = ("fuzz", "-p", "ik_llama@1889-base", "--model", "GA", "--property", "warm-equals-cold", "--no-shrink", "-q")
BYTES = 0.1  # share of the mutants with changed bytes
ASKED = (
    ("merge", "found"), ("merge", "found", "--json"), ("merge", "found", "--out", "merged"),
    (*SEARCH, "--out", "found", "--resume"), (*SEARCH, "--corpus", "found", "--json"),
    ("repair", "ik_llama@1889-base", "found", "--model", "GA", "--no-shrink"),
)  # fmt: skip


@cache
def found():
    """Return the files of a search, by name."""
    from cachesim.cli.main import main

    with TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        main([*SEARCH, "--examples", "4", "--out", folder])
        return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir()) if path.is_file()}


def campaign(rng, number):
    """Return a command about a folder of a search in which a file is mutated."""
    files = dict(found())
    name = rng.choice([name for name in files if name.endswith((".json", ".toml"))])
    if name.endswith(".json"):
        tree = json.loads(files[name])
        data = to_json(mutated(tree, rng, json.loads(files[name])))
    else:
        tree = tomllib.loads(files[name].decode())
        data = to_toml(mutated(tree, rng, tomllib.loads(files[name].decode())))
    files[name] = data.encode("utf-8", "surrogatepass")
    if rng.random() < BYTES:
        files[name] = flipped(files[name], rng)
    inside = {f"found/{name}": data for name, data in files.items()}
    return Mutant("campaign", number, tame(rng.choice(ASKED)), inside, ("found/*", "merged/*"), lines=20)
