"""``python -m tests.schemas``: write the JSON schemas of the tools from what commands print and from words.toml.

What a schema said before and no sample shows stays, so that a rare key is not lost; take it out by hand.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, Mapping

from cachesim.cli.command_list import COMMANDS
from cachesim.cli.main import main
from tests.house.checks import PACKAGE, ROOT
from tests.schemas.form import ORDER, form, merged
from tests.schemas.samples import MORE, SAMPLES

WORDS = tomllib.loads((ROOT / "tests" / "schemas" / "words.toml").read_text())


def file_of(name: str) -> Path:
    """The schema of a command, in the folder of its tool; that of errors, which every command prints, beside the
    command line."""
    module = COMMANDS[name.partition("-")[0]][0] if name != "error" else "cli.main"
    return PACKAGE.joinpath(*module.split(".")[:-1], f"{name}.schema.json")


@cache
def _printed(line: str) -> Any:
    return printed(line)


def _sample(name: str, line: str) -> Any:
    """What a sample of a schema prints: an error only in that of errors. A schema keeps the form of every sample."""
    data = _printed(line)
    if "error" in data and name != "error":
        raise SystemExit(f"{line}: {data['error']['message']}")
    return data


def printed(line: str) -> Any:
    """What a command line prints as JSON."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        main([*shlex.split(line), "--json"])
    return json.loads(out.getvalue())


def written(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with its words."""
    said = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"cachesim {name}",
            "description": WORDS["commands"][name]}  # fmt: skip
    return _ordered({**said, **schema}, name)


def _ordered(schema: dict[str, Any], name: str) -> dict[str, Any]:
    inner = {**schema}
    if "properties" in inner:
        inner["properties"] = {
            key: _ordered({**one, **_means(name, key)}, name) for key, one in inner["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(inner.get(key), dict):
            inner[key] = _ordered(inner[key], name)
    return {key: inner[key] for key in ORDER if key in inner}


def _means(name: str, key: str) -> dict[str, str]:
    meant = WORDS["keys"].get(f"{name}.{key}", WORDS["keys"].get(key))
    return {"description": meant} if meant else {}


_SIDE = {"cache_n": 0, "prompt_n": 9, "status": 200, "equal": True}
BESIDE = {"scenario": "try", "build": "b11549", "server": "xllamacpp==2026.10.11549", "profile": "llama_cpp@b11549",
          "same": True, "log_read": True, "left_out": "", "model": "A", "notes": [""],
          "requests": [{"number": 0, "text": "A", "ours": _SIDE, "theirs": _SIDE, "same": True, "why": "", "first": "",
                        "far": 1e-6}]}  # fmt: skip
"""A scenario beside a real server."""
SHOWN: Mapping[str, Any] = {
    "real": {"schema": 1, "builds": [{"build": "b11549", "package": "xllamacpp==2026.10.11549", "installed": True,
                                      "log_read": True, "bytes": 1, "folder": "/x"}]},
    "real-serve": {"schema": 1, "url": "http://127.0.0.1:8080", "log": "/x", "build": "b11549"},
    "fuzz-real": {"schema": 1, "real": [
        {"build": "b11549", "server": "xllamacpp==2026.10.11549", "profile": "llama_cpp@b11549", "log_read": True,
         "conversations": 1, "requests": 2, "equal": 1, "undecided": [{"why": "", "requests": 1}],
         "left_out": [{"why": "", "conversations": 1}],
         "differences": [{"number": 1, "shrunk": True, "line": "A1/A", "model": "A", "server": {},
                          "comparison": BESIDE}]}]},
    "verify-real": {"schema": 1, "real": [BESIDE]},
    "record": {"schema": 1, "recordings": [{"id": "try", "file": "try.json", "steps": 2, "events": 40, "notes": [""]}],
               "failed": 0},
    "verify": {"schema": 1, "scenario": "try", "same": None, "model": "GGGA", "profile": "llama_cpp@b11549",
               "undecided": "", "notes": [""], "requests": []},
    "check": {
        "schema": 2, "server": {"dialect": "native", "name": "x", "slots": 1, "adapters": 2, "image_tokens": 0},
        "measured": 1e-5, "tolerance": 1e-4,
        "requests": 60, "faults": 1, "stopped": "", "interrupted": False,
        "rules": {"branch": [{"profile": "llama_cpp@b11549", "model": "GA", "rule": "LC-CKPT-ERASE.ER2",
                              "command": "cachesim why"}]},
        "found": [{"name": "branch", "line": "A1/A", "request": 1, "requests": 30, "text": ""}],
        "conforms": False, "histories": 9, "notes": [""],
        "sections": [{"number": 1, "name": "noise", "state": "ok", "why": "", "histories": 1, "failed": 0,
                      "names": [""], "decisive": 1}],
        "properties": [
            {"name": "branch", "section": "same", "sentence": "", "state": "ok", "checked": 1,
             "decisive": 1, "reused": 1,
             "why": "", "finding": None, "fault": "", "common": "", "like": ""},
            {"name": "branch", "section": "same", "sentence": "", "state": "failed", "checked": 1,
             "decisive": 1, "reused": 1,
             "why": "", "fault": "", "common": "", "like": "",
             "finding": {"line": "A1/A", "request": 1, "expected": "", "got": "", "notes": [""],
                         "prompts": [[1]]}},
        ],
    },
    "watch": {"schema": 1, "url": "http://127.0.0.1:8081/", "to": "http://127.0.0.1:8080"},
    "watch-request": {"schema": 2, "request": {
        "number": 1, "source": "both", "run": 0, "slot": 1, "task": 9, "lines": [90, 105], "prompt": 150,
        "reused": 116, "evaluated": 34, "again": 4, "generated": 4, "change": "history", "says": "the date or time",
        "causes": [{"cause": "checkpoint-too-late", "says": "", "lines": [88, 89]}], "flags": ["-ctxcp"], "advice": "",
        "target": "/v1/chat/completions", "status": 200, "end": "whole", "note": "", "conversation": 1, "model": "x",
        "cause": "date", "detail": "", "where": "the system prompt", "path": "messages[0].content", "character": 32,
        "byte": 77, "byte_at_least": 77, "prompt_byte": 51, "harmless": False, "estimated": 73,
        "estimated_common": 12, "parameters": ["lora"], "refused": False,
        "loss": {"cause": "overwritten", "tokens": 100, "says": "", "advice": ""}}},
    "watch-totals": {"schema": 2, "totals": {
        "requests": 3, "other": 1, "prompt": 450, "reused": 116, "evaluated": 334, "again": 4, "generated": 12,
        "at_least": ["prompt"],
        "causes": [{"cause": "date", "requests": 1}], "log_lines": 258, "log_restarts": 0, "log": [""],
        "first_lines": [""],
        "left_out": [{"why": "", "requests": 1}], "unread_log_bytes": 0,
        "dropped_bytes": 0, "unread_connections": 0, "refused_connections": 0, "unsaved_requests": 0}},
    "watch-missed": {"schema": 1, "missed": {
        "message": 2, "ts": 0.5, "blocks": 1, "tokens": 16, "group": 0, "medium": "GPU", "first_block": "17",
        "left": {"message": 1, "ts": 0.5, "why": "removed", "stored": 1}, "copies": ["CPU"], "undecided": False,
        "requests": [0]}},
    "watch-events": {"schema": 1, "events": {
        "file": "tcp://127.0.0.1:5557", "messages": 4, "stored": 4, "removed": 2, "clearings": 0, "restarts": 0,
        "repeated": 0, "unnumbered": 0, "missing": 1, "unreadable": 0, "forgotten": 0, "of_other_publishers": 0,
        "removed_unseen": 0, "present": 3, "first_message": 0, "gaps": [{"after": 2, "before": 4, "messages": 1}],
        "unknown_fields": [{"name": "BlockStored.x", "number": 1}], "missed_blocks": 1, "missed_tokens": 16,
        "requests": [{"request": 0, "blocks": 1, "tokens": 16, "alone": 1}], "undecided": True, "bodies": 3,
        "bodies_without_tokens": 1, "bodies_joined": 1, "bodies_forgotten": 0, "replayed": 0, "answered": True}},
    "playground": {"schema": 1, "url": "http://127.0.0.1:8080/"},
    "merge": {"schema": 1, "campaigns": [
        {"profile": "llama_cpp@b10587", "properties": ["survives"], "seed": 0, "examples": 100, "refused": 0,
         "failures": [], "files": ["x.json"], "left_out": ["x.json"], "done": [[0, 100]]},
        {"profile": "llama_cpp@b10587", "properties": ["survives"], "seed": 0, "examples": 100, "refused": 0,
         "failures": [], "files": ["x.json"], "left_out": ["x.json"], "done": [[0, 100]], "against": "llama_cpp@b9518",
         "cost": {}, "mended": []},
    ], "workloads": [{"jobs": 60, "files": ["x.jsonl"], "lines": [], "totals": []}]},
    "error": {"schema": 1,
              "error": {"kind": "input", "code": 2, "message": "", "file": "x.toml", "line": 3, "hint": ""}},
}  # fmt: skip
"""What commands print that need a real server or folders that other commands have made, or do not end."""


OPEN = ("profiles-show",)
"""Commands whose keys are an engine's."""
ANY = {"type": "object", "properties": {"schema": {"type": "integer"}}, "required": ["schema"]}


def make() -> list[str]:
    """Write all schemas; the names of those that changed."""
    changed = []
    for name, lines in SAMPLES.items():
        file = file_of(name)
        known = [json.loads(file.read_text())] if file.exists() else []
        known += [form(SHOWN[name])] if name in SHOWN else []
        every = dict.fromkeys((*lines, *MORE.get(name, ())))
        schema = ANY if name in OPEN else merged([*known, *(form(_sample(name, line)) for line in every)])
        text = json.dumps(written(name, schema), indent=1) + "\n"
        if not file.exists() or text != file.read_text():
            file.write_text(text)
            changed.append(name)
    return changed


if __name__ == "__main__":
    print("changed:", ", ".join(make()) or "none", file=sys.stderr)
