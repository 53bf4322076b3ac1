"""Settings for agents in common memories, and the page about them; cells that exist are not run again.

    python -m tests.workloads.agents [--lines FILE] [--only KIND]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from cachesim.engines.shared.model_sizes import real_model
from cachesim.tools.advise.agent_report import agents_data
from cachesim.tools.advise.agent_search import AgentCost, AgentSearch
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.workload.shipped_sessions import shipped_sessions

LINES = Path(__file__).with_name("agents.jsonl")
PROFILE = "llama_cpp@b11549"
MODELS = {"attention": "llama-3", "window": "gpt-oss", "hybrid": "qwen3-next"}
MEMORY, CLIENTS = (16, 32, 64, 128), (1, 2, 3, 4)
LONGEST = min(real_model(word).context for word in MODELS.values())
GIB = 1 << 30


class AgentCell(NamedTuple):
    """A row of the page: the kind of model, the number of agents, the memory for caches [GiB]."""

    kind: str
    clients: int
    gib: int


def every() -> Iterator[AgentCell]:
    """Yield the cells; the same workload runs in all memories, one after another."""
    yield from (AgentCell(kind, clients, gib) for kind in MODELS for clients in CLIENTS for gib in MEMORY)


def run_cell(one: AgentCell, known: dict[object, AgentCost]) -> dict[str, Any]:
    """Return the line of a cell. ``known``: costs of earlier cells."""
    load = recorded_workload(shipped_sessions(), "recorded sessions", one.clients, LONGEST)
    search = AgentSearch(PROFILE, MODELS[one.kind], one.gib * GIB, one.clients, load, known)
    data = agents_data(search, search.advice(), MODELS[one.kind], one.gib * GIB, None)
    return {"kind": one.kind, "clients": one.clients, "gib": one.gib, **data}


def read(path: Path) -> dict[AgentCell, dict[str, Any]]:
    """Read the lines; an incomplete line is ignored."""
    out = {}
    for text in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        out[AgentCell(line["kind"], line["clients"], line["gib"])] = line
    return out


def main() -> None:
    """Run the cells that are missing, then write the page."""
    parser = argparse.ArgumentParser(prog="tests.workloads.agents")
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--only", choices=MODELS, action="append")
    args = parser.parse_args()
    done, known = read(args.lines), dict[object, AgentCost]()
    for one in every():
        if one in done or one.kind not in (args.only or MODELS):
            continue
        began = time.process_time()
        line = run_cell(one, known)
        with args.lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "seconds": round(time.process_time() - began, 1)}) + "\n")


if __name__ == "__main__":
    main()
