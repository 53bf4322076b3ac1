"""How does kv-cache-tester write a session? One object, with the requests of sub-agents nested among its own.

The ``t`` of a sub-agent is the time at which it ended: it began ``duration_ms`` before, and the ``t`` of its requests
count from there. Ids are unique within the session, sub-agents included. A block that is not full has no id.
Source: callanjfox/kv-cache-tester docs/trace_replay_tester.md, traces/ (94f6046).
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.shapes import INT32, INT64, anything, check, each, integer, integers, number, one_of, record, text
from cachesim.tools.workload.session import RecordedRequest, WorkloadSession

FORM = "kv-cache-tester"
SUBAGENT = "subagent"

count = integer(0, INT32, "a count (0 to 2147483647)")
REQUEST = record(
    {"t": number, "type": text, "in": integer(1, INT32, "a number of tokens"), "out": count,
     "hash_ids": integers(0, INT64, "the id of a block (0 or larger)"), "api_time": number},
    needs=("t", "in", "out", "hash_ids"), others=anything,
)  # fmt: skip
AGENT = record(
    {"t": number, "type": text, "duration_ms": number, "requests": each(REQUEST), "tool_tokens": count,
     "system_tokens": count},
    needs=("t", "requests"), others=anything,
)  # fmt: skip
SESSION = record(
    {"id": text, "block_size": integer(1, 1 << 20, "the tokens of a block"), "tool_tokens": count,
     "system_tokens": count, "requests": each(one_of(AGENT, REQUEST))},
    needs=("block_size", "requests"), others=anything,
)  # fmt: skip


def from_object(value: Any, name: str, file: str) -> WorkloadSession:
    """The session that an object describes. Raises BadInput for one of another shape."""
    check(value, SESSION, file)
    size = value["block_size"]
    found = [one for entry in value["requests"] if not _is_agent(entry) for one in (_request(entry, value, 0.0, ""),)]
    agents = [entry for entry in value["requests"] if _is_agent(entry)]
    for number_of, entry in enumerate(agents, 1):
        began = entry["t"] - entry.get("duration_ms", 0) / 1000
        found += [_request(one, entry, began, f"agent {number_of}") for one in entry["requests"]]
    for one in found:
        if not len(one.blocks) * size <= one.n_prompt:
            raise BadInput(f"{one.n_prompt} tokens are not {len(one.blocks)} blocks of {size}", file=file)
    return WorkloadSession(name, FORM, size, tuple(sorted(found, key=lambda one: one.start)))


def _is_agent(entry: Mapping[str, Any]) -> bool:
    return "requests" in entry


def _request(entry: Mapping[str, Any], owner: Mapping[str, Any], began: float, agent: str) -> RecordedRequest:
    """A request that nobody timed takes no time."""
    start = began + entry["t"]
    before = owner.get("tool_tokens", 0) + owner.get("system_tokens", 0)
    return RecordedRequest(
        start, start + max(0.0, entry.get("api_time", 0)), entry["in"], max(1, entry["out"]),
        tuple(entry["hash_ids"]), before if before < entry["in"] else 0, agent,
    )  # fmt: skip
