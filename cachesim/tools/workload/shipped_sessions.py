"""Recorded sessions of coding agents that come with cachesim, in a compact form without loss.

A request is a list: start and end [s], prompt and answer [tokens], the earlier request whose first blocks it shares
(-1 = none), their number, the number of its blocks, the tokens before its first user message. Blocks that are not
shared are new. Equal ids mean equal pasts, so that two prompts share only their beginnings.
Source: callanjfox/kv-cache-tester traces/ (94f6046), Apache-2.0; ``python -m tests.workloads.ship`` writes the file.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any, Sequence

from cachesim.tools.workload.recorded_session import Blocks, RecordedRequest, WorkloadSession

FILE = "agent_sessions.json"
FORM = "shipped"


@cache
def shipped_sessions() -> tuple[WorkloadSession, ...]:
    """Return the sessions, sorted by name."""
    data = json.loads(resources.files(__package__).joinpath(FILE).read_text("utf-8"))
    return tuple(unpacked(name, data["block_size"], rows) for name, rows in data["sessions"].items())


def unpacked(name: str, block_size: int, rows: Sequence[Sequence[Any]]) -> WorkloadSession:
    """Return the session of these lists; its blocks are numbered from 1 in the order of their first use."""
    requests = list[RecordedRequest]()
    blocks = list[Blocks]()
    top = 1
    for start, end, prompt, answer, parent, shared, number, first in rows:
        known = blocks[parent][:shared] if shared else ()
        blocks.append((*known, *range(top, top := top + number - shared)))
        requests.append(RecordedRequest(start, end, prompt, answer, blocks[-1], first))
    return WorkloadSession(name, FORM, block_size, tuple(requests))


def packed(session: WorkloadSession) -> list[list[Any]]:
    """Return the lists of a session without sub-agents."""
    last, rows = dict[int, int](), list[list[Any]]()
    for i, one in enumerate(session.requests):
        shared = next((n for n in range(len(one.blocks), 0, -1) if one.blocks[n - 1] in last), 0)
        parent = last[one.blocks[shared - 1]] if shared else -1
        last.update(dict.fromkeys(one.blocks, i))
        rows.append([one.start, round(one.end, 6), one.n_prompt, one.n_answer, parent, shared, len(one.blocks),
                     one.first_user])  # fmt: skip
    return rows
