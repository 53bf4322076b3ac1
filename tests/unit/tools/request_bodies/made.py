"""Small conversations as request bodies, and their import."""

from __future__ import annotations

import json

from cachesim.tools.request_bodies.import_bodies import ImportOptions, import_bodies

LONG = "The rules of this place are many, and each of them is written down here in full. " * 6
TOOLS = [
    {"type": "function", "function": {
        "name": name, "description": f"does {name} for you", "parameters": {
            "type": "object", "properties": {"path": {"type": "string"}, "line": {"type": "integer"}},
            "required": ["path"]}}}
    for name in ("read", "write", "run")
]  # fmt: skip


def chat(*said, system=LONG, **more):
    """Return a chat completions body: messages alternate between user and assistant; dicts are used unchanged."""
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": system}] if system else []
    messages += [one if isinstance(one, dict) else {"role": roles[i % 2], "content": one} for i, one in enumerate(said)]
    return {"model": "m", "messages": messages, **more}


def found(tmp_path, *bodies, asking=None):
    """Return the data of an import of these bodies as JSON lines."""
    file = tmp_path / "bodies.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in bodies), "utf-8")
    return import_bodies([file], asking or ImportOptions())[0]
