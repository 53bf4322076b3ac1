"""Writer of the sessions that come with cachesim: those whose requests fit into the contexts of common models.

    python -m tests.workloads.ship SESSIONS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cachesim.tools.workload import shipped_sessions
from cachesim.tools.workload.recorded_session import WorkloadSession
from cachesim.tools.workload.workload_files import find_files, read_session

LONGEST = 131_072                # tokens of a prompt and its answer
SOURCE = "callanjfox/kv-cache-tester traces/ at 94f6046, Apache-2.0 (agent_sessions.LICENSE); block ids became ranges"


def selected(folder: str) -> list[WorkloadSession]:
    """Return the sessions of a folder without longer requests."""
    sessions = [read_session(file) for file in find_files([folder])]
    return [one for one in sessions if max(request.n_prompt + request.n_answer for request in one.requests) <= LONGEST]


def text_of(folder: str) -> str:
    """Return the text of the file: a line for each session."""
    sessions = selected(folder)
    (size,) = {one.block_size for one in sessions}
    lines = (f"{json.dumps(one.name)}: {json.dumps(shipped_sessions.packed(one), separators=(',', ':'))}"
             for one in sessions)  # fmt: skip
    head = f'"source": {json.dumps(SOURCE)}, "block_size": {size}, "sessions": '
    return "{" + head + "{\n" + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    place = Path(shipped_sessions.__file__).with_name(shipped_sessions.FILE)
    place.write_text(text_of(sys.argv[1]), "utf-8")
