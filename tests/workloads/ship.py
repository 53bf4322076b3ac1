"""Writer of the sessions that come with cachesim.

    python -m tests.workloads.ship SESSIONS
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from cachesim.tools.workload import shipped_sessions
from cachesim.tools.workload.workload_files import find_files, read_session

SOURCE = "callanjfox/kv-cache-tester traces/ at 94f6046, Apache-2.0 (agent_sessions.LICENSE); block ids became ranges"


def text_of(folder: str) -> str:
    """Return the text of the file: a line for each session."""
    sessions = [read_session(file) for file in find_files([folder])]
    (size,) = {one.block_size for one in sessions}
    lines = (f"{json.dumps(one.name)}: {json.dumps(shipped_sessions.packed(one), separators=(',', ':'))}"
             for one in sessions)  # fmt: skip
    head = f'"source": {json.dumps(SOURCE)}, "block_size": {size}, "sessions": '
    return "{" + head + "{\n" + ",\n".join(lines) + "\n}}\n"


if __name__ == "__main__":
    place = Path(shipped_sessions.__file__).with_name(shipped_sessions.FILE)
    place.write_text(text_of(sys.argv[1]), "utf-8")
