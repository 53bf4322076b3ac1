"""Detection of an unload by an idle server, which the log does not print.

cachesim simulates the next step on the server as it was and on a newly started one. If the new one reproduces more of
the log, the server was unloaded.

With ``--sleep-idle-seconds`` an idle server unloads its model, and the next request loads it again: slots, checkpoints
and prompt cache are lost, slot files stay, as after a restart. Source: llama.cpp tools/server/server-queue.cpp
start_loop, server-context.cpp handle_sleeping_state (3f545be).
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.engines.contract import Server
from cachesim.replay.recorded_trace import TraceStep
from cachesim.replay.schedule_search import Records, send

COUNTS = ("n_saved", "n_erased")


def wake_if_slept(
    server: Server, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records, start: Callable[[], Server]
) -> Server:
    """Return the server for a step: the given server, or a new server from ``start`` if that reproduces more of the
    recorded log. Neither server changes."""
    if step.action:
        held = len(server.inspection.tokens_of(step.id_slot % server.inspection.n_slots))
        lost = any(name in step.response and step.response[name] != held for name in COUNTS)
        return start() if lost else server
    fresh = start()
    met = _reach(server.fork(), step, theirs, records)
    return fresh if _reach(fresh.fork(), step, theirs, records) > met else server


def _reach(server: Server, step: TraceStep, theirs: Sequence[Mapping[str, Any]], records: Records) -> int:
    """Return the number of recorded events that are reproduced before the first difference."""
    first = len(server.log.events)
    server = send(server, step, theirs, records, lambda *_: None).server
    return common_prefix(theirs, records(server, first))
