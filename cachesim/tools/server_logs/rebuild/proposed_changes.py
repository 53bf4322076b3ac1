"""Changes that the reports on a log propose, for a simulation of each: edits of the client by its cause, and flags that
may cure a cause."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from cachesim.engines.registry import engine_of
from cachesim.tools.advise.client_changes import ClientChange
from cachesim.tools.advise.proposals import ProposedChange
from cachesim.tools.request_bodies.report import request_numbers
from cachesim.tools.server_logs.facts.client_changes import ADVICE
from cachesim.tools.server_logs.rebuild.kept_history import KeptHistory
from cachesim.tools.server_logs.rebuild.reconstruction import Reconstruction

Data = Mapping[str, Any]
TEXTS = {
    "answer": "send the answers before {requests} back exactly as generated, with their reasoning",
    "turn end": "send past turns in {requests} as before, with their reasoning",
    "answer or turn end": "send the answers before {requests} back exactly as generated, with their reasoning",
    "history or turn end": "send the prompts before {requests} back unchanged",
    "history": "send the history of {requests} unchanged",
}
"""Proposed changes of the client that keep the history, by cause."""
MOVED = "changing part last"
"""Name of the change that puts a changing text last."""


def proposed_changes(found: Reconstruction, data: Data, is_assumed: bool) -> tuple[ProposedChange, ...]:
    """Return the changes that the reports on a log propose for requests that lost tokens. ``data``: as in
    ``import --json``; ``is_assumed``: the conversation has assumed texts where its beginning changes."""
    return (*_of_client(found, data["summary"]["causes"], is_assumed), *_of_flags(found, data["statements"]))


def _of_client(found: Reconstruction, causes: Sequence[Data], is_assumed: bool) -> Iterator[ProposedChange]:
    for one in causes:
        cause, requests = one["cause"], tuple(one["requests"])
        if not one["lost"] or cause not in ADVICE:
            continue
        which = request_numbers(list(requests))
        if cause in TEXTS:
            text = TEXTS[cause].format(requests=which)
            verb, whose = ("continues", "its") if len(requests) == 1 else ("continue", "their")
            assumes = f"{which} {verb} the conversation of {whose} slot"
            least, most = (ClientChange(f"kept {cause}", text, KeptHistory(found, frozenset(requests), repeats),
                                        assumes=assumes, is_of_log=True) for repeats in (False, True))  # fmt: skip
            yield ProposedChange(cause, text, requests, client=least, most=most)
        else:
            why = "the log does not show how much of the text after the difference is the same"
            text = f"move what changes near the beginning of {which} to the end of the prompt"
            yield ProposedChange(cause, text, requests, name=MOVED if is_assumed else "", why=why)


def _of_flags(found: Reconstruction, statements: Sequence[Data]) -> Iterator[ProposedChange]:
    """Yield the flags of the causes that the lines prove, once for each set of flags."""
    engine, seen = engine_of(found.profile), set[tuple[str, ...]]()
    for said in statements:
        if said["what"] != "cause" or "lost" not in said["numbers"]:
            continue
        cause = said["numbers"]["cause"]
        flags = next((one.flags for one in engine.log().signatures if one.key == cause), ())
        names = {known[0].name for word in flags if (known := engine.manual.named(word)) is not None}
        if names and flags not in seen:
            seen.add(flags)
            yield ProposedChange(cause, f"another value of {', '.join(flags)}", flags=frozenset(names))
