"""Mutated captures: KV events of a server, and request bodies with the replies that state their reuse."""

from __future__ import annotations

import json
from functools import cache

from tests.hostile.mutant import Mutant
from tests.hostile.trees import mutated
from tests.hostile.written import flipped, to_json
from tests.shared import ROOT

EVENTS = ROOT / "tests/unit/tools/server_logs/kv_events"
REPLIES = ROOT / "tests/unit/tools/request_bodies/captures"
BODIES = EVENTS / "bodies.jsonl"
BYTES = 0.15  # share of mutants with changed bytes instead of changed values


@cache
def _lines(file):
    """Return the lines of a file."""
    return file.read_text("utf-8").splitlines()


def _bent(rng, file):
    """Return the lines of a file after changes in one of them, as bytes."""
    lines = list(_lines(file))
    at = rng.randrange(len(lines))
    if rng.random() < BYTES:
        return flipped("\n".join(lines).encode(), rng)
    donor = {"x": [json.loads(rng.choice(lines))]}
    lines[at] = to_json(mutated(json.loads(lines[at]), rng, donor))
    if rng.random() < 0.2:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def kv_events(rng, number):
    """Return an import of mutated KV events, or a watch, some with the request bodies."""
    file = EVENTS / rng.choice(("events.jsonl", "unnumbered.jsonl"))
    files = {"events.jsonl": _bent(rng, file)}
    if rng.random() < 0.3:
        files["bodies.jsonl"] = _bent(rng, BODIES) if rng.random() < 0.3 else BODIES.read_bytes()
    argv = ("import", *files, *rng.choice(((), ("--json",), ("-v",))))
    if rng.random() < 0.3:
        bodies = ("--bodies", "bodies.jsonl") if "bodies.jsonl" in files else ()
        argv = ("watch", "--once", "--kv-events", "events.jsonl", *bodies, *rng.choice(((), ("--json",))))
    return Mutant("kv-events", number, argv, files, lines=len(files))


def replies(rng, number):
    """Return an import of request bodies with mutated replies."""
    file = rng.choice(sorted(REPLIES.rglob("*.jsonl")))
    engine = () if file.parent == REPLIES else ("-p", file.parent.name)
    argv = ("import", "in.jsonl", *engine, *rng.choice(((), ("--json",), ("-v",), ("-np", "2"))))
    return Mutant("replies", number, argv, {"in.jsonl": _bent(rng, file)})
