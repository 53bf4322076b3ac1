"""Settings for agents in common memories, and the page about them; cells that exist are not run again.

    python -m tests.workloads.agents [--lines FILE] [--page FILE] [--only KIND] [--memory GIB] [--clients N]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

import cachesim
from cachesim.engines.shared.model_sizes import real_model
from cachesim.tools.advise.agent_report import agents_data
from cachesim.tools.advise.agent_search import AgentCost, AgentSearch
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.workload.shipped_sessions import shipped_sessions
from tests.workloads.markdown import share, table

LINES = Path(__file__).with_name("agents.jsonl")
PAGE = Path(cachesim.__file__).parent / "pages" / "agents.md"
PROFILE = "llama_cpp@b11549"
PICTURE = "../../scenarios/pictures/agents.svg"
MODELS = {"attention": "llama-3", "window": "gpt-oss", "hybrid": "qwen3-next"}
MEMORY, CLIENTS = (16, 32, 64, 128), (1, 2, 3, 4)
LONGEST = min(real_model(word).context for word in MODELS.values())
GIB = 1 << 30


class AgentCell(NamedTuple):
    """A row of the page: the kind of model, the number of agents, the memory for caches [GiB]."""

    kind: str
    clients: int
    gib: int


Lines = Mapping[AgentCell, Mapping[str, Any]]


def every() -> Iterator[AgentCell]:
    """Yield the cells; the same workload runs in all memories, one after another."""
    yield from (AgentCell(kind, clients, gib) for kind in MODELS for clients in CLIENTS for gib in MEMORY)


def run_cell(cell: AgentCell, known: dict[object, AgentCost]) -> dict[str, Any]:
    """Return the line of a cell. ``known``: costs of earlier cells."""
    load = recorded_workload(shipped_sessions(), "recorded sessions", cell.clients, LONGEST)
    search = AgentSearch(PROFILE, MODELS[cell.kind], cell.gib * GIB, cell.clients, load, known)
    data = agents_data(search, search.advice(), MODELS[cell.kind], cell.gib * GIB, None)
    return {"kind": cell.kind, "clients": cell.clients, "gib": cell.gib, **data}


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


TEXT = """# Settings for agents

The flags of llama-server with which coding agents that share it evaluate the fewest tokens, for a memory and a number
of agents. `make agents` writes this page. For another model, another memory or
[your own request bodies](using.md#settings-for-agents), run `cachesim advise --for agents`.

- *GiB* is the memory for caches alone. First subtract weights and compute buffers from the machine's memory, or pass
  `--weights`.
- *Evaluated* is the share of the prompt tokens that the server evaluates, in {sessions} recorded sessions ({requests}
  requests, {tokens} million prompt tokens, the longest request {longest} tokens). *Takes* is the memory at the fullest.
  No server can evaluate less than {least} %.
- With fewer slots than agents (`-np`), requests wait for each other. Waiting costs no tokens, so it is not counted. The
  last column has the best setting in which no request waits.
- `-ctk q8_0 -ctv q8_0` stores less precise rows. It is listed only if it saves at least 1 % of the prompt tokens.
- Settings with wrong answers are left out. *Unanswered* requests do not fit into the context of a slot.

![evaluated share of the best settings against the memory, by number of agents]({picture})

{tables}
## Method

The recorded sessions come with cachesim (callanjfox/kv-cache-tester, Apache-2.0). Sessions with requests of more than
{most} tokens are left out. As many sessions as there are agents use a server at the same time; they share no text. All
settings of `{profile}` that fit run on the servers with the longest requests, with 64 tokens simulated as one. The best
run on all servers, and their answers are compared with a cold run's. The best setting runs once more, unscaled: this is
the number in the column *evaluated*. If another setting is better then, that one runs unscaled, too. Costs that differ
by less than 0.1 % of the prompt tokens count as equal; among equals, the setting with the least memory is the best. Of
settings that cost as much in the first comparison, few run on all servers, those with the least memory first: one with
more memory that is better only there can be missed. Times are not simulated.
"""
HEAD = ("agents", "GiB", "flags", "evaluated", "takes", "no request waits")
TITLES = {"attention": "Attention", "window": "Window", "hybrid": "Hybrid"}


def rows(kind: str, lines: Lines) -> Iterator[list[str]]:
    """Yield the rows of a kind of model; a cell that is missing is marked."""
    for one in (one for one in every() if one.kind == kind):
        line = lines.get(one)
        head = [str(one.clients), str(one.gib)]
        if line is None or line["best"] is None:
            yield [*head, "not run" if line is None else "wrong answers only", "", "", ""]
            continue
        best = line["best"]
        yield [*head, f"`{best['flags']}`", percent(best), f"{best['bytes'] / GIB:.1f}", waiting_free(line)]


def percent(cost: Mapping[str, Any]) -> str:
    """Return the evaluated tokens in per cent of the prompt tokens, and the requests without an answer."""
    lost = f" [{cost['unanswered']} unanswered]" if cost["unanswered"] else ""
    return f"{share(cost['evaluated'], cost['prompt_tokens'])} %{lost}"


def waiting_free(line: Mapping[str, Any]) -> str:
    """Return the best setting in which no request waits, if it is another one."""
    if not line["best"]["waits"]:
        return "the same"
    found = next((one for one in line["next"] if not one["waits"]), None)
    return "none fits" if found is None else f"{percent(found)}: `{found['flags']}`"


def page(lines: Lines) -> str:
    """Return the page."""
    first = next(iter(lines.values()))
    cost, load = first["best"], first["workload"]
    tables = "".join(f"## {TITLES[kind]} ({MODELS[kind]})\n\n{table(HEAD, rows(kind, lines))}\n" for kind in MODELS)
    return TEXT.format(
        sessions=load["sessions"], requests=cost["requests"], tokens=f"{cost['prompt_tokens'] / 1e6:.1f}",
        longest=f"{load['longest']:,}", least=share(cost["bound"], cost["prompt_tokens"]), most=f"{LONGEST:,}",
        profile=PROFILE, picture=PICTURE, tables=tables.rstrip("\n") + "\n",
    )  # fmt: skip


def main(argv: Sequence[str]) -> None:
    """Run the cells that are missing, then write the page."""
    parser = argparse.ArgumentParser(prog="tests.workloads.agents")
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--only", choices=MODELS, action="append")
    parser.add_argument("--memory", type=int, choices=MEMORY, action="append")
    parser.add_argument("--clients", type=int, choices=CLIENTS, action="append")
    args = parser.parse_args(argv)
    done, known = read(args.lines), dict[object, AgentCost]()
    wanted = (args.only or MODELS, args.clients or CLIENTS, args.memory or MEMORY)
    for one in every():
        if one in done or any(value not in values for value, values in zip(one, wanted, strict=True)):
            continue
        began = time.process_time()
        done[one] = {**run_cell(one, known), "seconds": round(time.process_time() - began, 1)}
        with args.lines.open("a", encoding="utf-8") as file:
            file.write(json.dumps(done[one]) + "\n")
    args.page.write_text(page(done), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
