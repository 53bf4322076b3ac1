"""Recordings and builds that the simulator is compared with: the table of the page about trust, and the totals in
prose.

Steps and events are those that the replay tests require. Tests check the number of files where the recordings exist.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.replay.test_full import RECORDED as FULL
from tests.replay.test_history import RECORDED as OLDER

CAMPAIGNS = Path(__file__).parents[1] / "fuzz"
"""Folder with the results of `make million`, `keyed`, `blocks` and `trees`, in folders of these names."""

FILES = {
    "llama_cpp": 409, "llama_cpp_odd": 93, "llama_cpp_b11549": 289, "ik_llama": 84, "ik_llama_odd": 11,
    "ik_llama_parallel": 70, "llama_cpp_new_memories": 312,
    "llama_cpp_history/head": 24, "llama_cpp_history/pr24143-on-head": 39,
    "llama_cpp_history/base-24143": 61, "llama_cpp_history/base-24035": 61,
    **{f"llama_cpp_history/{name}": files for name, (_, files, _, _) in OLDER.items()},
}  # fmt: skip
"""Folder -> number of recordings."""

BUILDS = {
    "llama_cpp_b11549": ("llama.cpp", "b11549", ""),
    "llama_cpp_new_memories": ("llama.cpp", "b11549", "index rows, chosen blocks, compressed rows"),
    "llama_cpp": ("llama.cpp", "b10587", ""),
    "llama_cpp_odd": ("llama.cpp", "b10587", "odd workloads: disconnects, shortage, missing files (one: b9518)"),
    "llama_cpp_history/head": ("llama.cpp", "b10587", "the workloads of the older builds"),
    "llama_cpp_history/pr24143-on-head": ("llama.cpp", "b10587 + #24143", "the pull request, applied locally"),
    "llama_cpp_history/user-turns": ("llama.cpp", "b9765", ""),
    "llama_cpp_history/base-24143": ("llama.cpp", "b9518", ""),
    "llama_cpp_history/base-24035": ("llama.cpp", "b9473", ""),
    "llama_cpp_history/minus-one": ("llama.cpp", "b9231", ""),
    "llama_cpp_history/spring-2026": ("llama.cpp", "b8916", ""),
    "llama_cpp_history/before-min0": ("llama.cpp", "b8450", ""),
    "llama_cpp_history/before-20671": ("llama.cpp", "b8392", ""),
    "llama_cpp_history/two-ends": ("llama.cpp", "b8271", ""),
    "llama_cpp_history/every-8192": ("llama.cpp", "b8260", ""),
    "llama_cpp_history/mtmd-broken": ("llama.cpp", "b8152", ""),
    "llama_cpp_history/late-2025": ("llama.cpp", "b7789", ""),
    "llama_cpp_history/hybrid-first": ("llama.cpp", "b6685", ""),
    "llama_cpp_history/swa-first": ("llama.cpp", "b6160", ""),
    "ik_llama": ("ik_llama.cpp", "8337e4c", ""),
    "ik_llama_odd": ("ik_llama.cpp", "8337e4c", "odd workloads"),
    "ik_llama_parallel": ("ik_llama.cpp", "8337e4c", "two to four slots"),
}
"""Folder of recordings -> server, build, and note."""

HEAD = "| recorded with | build | recordings | steps | events | verdicts |"
TABLE = re.compile(re.escape(HEAD) + r"\n(?:\|.*\n)*")


def figures(folder: str) -> tuple[int, int, int]:
    """Return recordings, steps and events of a folder."""
    steps, events = FULL[folder][:2] if folder in FULL else OLDER[folder.partition("/")[2]][2:]
    return FILES[folder], steps, events


def table() -> str:
    """Return the table, newest build first, with the totals in its last row."""
    rows = [HEAD, "|---|---|---|---|---|---|"]
    for folder, (server, build, note) in BUILDS.items():
        files, steps, events = figures(folder)
        name = f"{server}: {note}" if note else server
        rows.append(f"| {name} | {build} | {files:,} | {steps:,} | {events:,} | {steps:,} |")
    files, steps, events = (sum(figures(folder)[k] for folder in BUILDS) for k in range(3))
    rows.append(f"| all | | {files:,} | {steps:,} | {events:,} | {steps:,} |")
    return "\n".join(rows) + "\n"


def builds(server: str) -> list[str]:
    """Return the recorded builds of a server that were unmodified releases, newest first."""
    found = [build for name, build, _ in BUILDS.values() if name == server and "+" not in build]
    return list(dict.fromkeys(found))


def searched(target: str) -> int:
    """Return the number of conversations that a target of the Makefile has run under the repaired rules."""
    return sum(json.loads(file.read_text())["played"] for file in sorted((CAMPAIGNS / target).glob("campaign-*.json")))


NAMES = {
    "recordings": sum(figures(folder)[0] for folder in BUILDS),
    "steps": sum(figures(folder)[1] for folder in BUILDS),
    "events": sum(figures(folder)[2] for folder in BUILDS),
    "llama_cpp_builds": len(builds("llama.cpp")),
    "oldest": builds("llama.cpp")[-1],
    "newest": builds("llama.cpp")[0],
    "searched": searched("million"),
    "keyed": searched("keyed"),
    "trees": searched("trees"),
    "blocks": searched("blocks"),
}
"""Names that fields of README and pages may use."""
