"""Comparison with the real scheduler of vLLM: ``python -m tests.peers.vllm_compare --steps 100000 --seed 0``.

Requests are drawn for the real classes, and our replay of the recording must decide the same. The times are CPU times
of one run in turn: the real classes without the recorder, our server with provenance, the judging with cold runs.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections import Counter
from itertools import count
from pathlib import Path

from cachesim.base import exits
from cachesim.base.console import complain
from cachesim.engines.vllm.profiles import PROFILES
from cachesim.replay.recorded_trace import make_trace
from cachesim.replay.replay import replay
from cachesim.tools.replay.command import checker

try:
    from tests.peers import vllm_draw
    from tests.peers.vllm_engine import RealServer
except ModuleNotFoundError as absent:                # only `make peers` installs vLLM
    complain(f"not installed: {absent.name!r} (run `make peers`, which makes .venv-peers-vllm)")
    sys.exit(exits.NOTHING)

UNMARKED = "drafts wrong"         # our judgement of a drafter's rows; the real classes know no rows


def timed(seconds, name, action):
    """Perform an action and add its CPU time to a sum. Its garbage collections leave out what existed before: vLLM's
    modules, the recording, and the garbage of other actions."""
    gc.collect()
    gc.freeze()
    began = time.process_time()
    result = action()
    seconds[name] += time.process_time() - began
    return result


def again(data):
    """Perform the steps of a recording on the real classes, without a recorder."""
    server = RealServer(dict(data["config"]), data["requests"], recorded=False)
    for step in data["steps"]:
        if step["op"] == "update":
            server.update(step.get("drafts", {}), step.get("ended", ()))
        elif step["op"] != "died":
            getattr(server, step["op"])(*[step[name] for name in ("req", "running") if name in step])
    return server


def known_fault(config):
    """True if answers may be wrong: chunks end on smaller blocks than those of states (V-DEF-8), states are kept inside
    chunks (V-DEF-3, V-DEF-7), a chunk in CPU memory may lack a block that a window gave back (V-DEF-10), or a load may
    end inside a block of states (V-DEF-13)."""
    states = [group["block_size"] for group in config["groups"] if group["kind"] == "mamba"]
    windows = {group["kind"] for group in config["groups"]} & {"swa", "chunked"}
    holes = windows and config["offload"]["blocks_per_chunk"] > 1
    inside = states and config["ckpt_align"] is not None
    others = [group["block_size"] for group in config["groups"] if group["kind"] != "mamba"]
    ends_inside = any(other % state for other in others for state in states)
    return bool(holes or inside or ends_inside) or any(size != config["cache_block_size"] for size in states)


def compare(data, seconds):
    """Replay a recording and return the first difference. With CPU offload, all answers must be correct, too."""
    trace = make_trace(Path(data["name"]), data, PROFILES)
    found = timed(seconds, "decisions", lambda: replay(trace))
    timed(seconds, "real", lambda: again(data))
    judged = timed(seconds, "provenance", lambda: replay(trace, "provenance"))
    cold = timed(seconds, "with cold runs", lambda: replay(trace, "provenance", checker()))
    unmarked = judged.first and judged.first["field"] == UNMARKED
    judged_too = "offload" in data["config"] and not known_fault(data["config"])
    wrong = {"step": cold.broken[0], "field": "verdict"} if judged_too and cold.broken else None
    return found.first or (None if unmarked else judged.first) or wrong


def run(args):
    """Compare drawn recordings until there are enough steps; return the exit code."""
    tried, seconds, worst, seed = Counter(), Counter(), None, args.seed
    while tried["steps"] < args.steps:
        seed += 1
        data = vllm_draw.record(seed, draw=args.draw)
        if data is None:
            tried["settings that vLLM refuses"] += 1
            continue
        first = compare(data, seconds)
        tried.update(events=sum(len(step.get("ev", ())) for step in data["steps"]), recordings=1,
                     steps=len(data["steps"]), differences=first is not None)  # fmt: skip
        tried[data["config"]["kind"]] += len(data["steps"])
        if first is not None and (worst is None or first["step"] < worst[1]["step"]):
            worst = data, first
    for name, n in sorted(tried.items(), key=lambda pair: pair[0] in vllm_draw.KINDS):
        print(f"{name:28} {n:>9}")
    for name, spent in seconds.items():
        print(f"CPU time, {name:17} {spent:>9.1f} s {spent / seconds['real']:6.2f} x real")
    if worst:
        Path(args.out).write_text(json.dumps(worst[0]))
        complain(f"smallest difference: {worst[0]['name']}, {worst[1]} (recording: {args.out})")
    return exits.BROKEN if worst else exits.HOLDS


def keep(folder, seeds, draw):
    """Write the recordings of these seeds."""
    for seed in seeds:
        data = vllm_draw.record(seed, draw=draw)
        if data is None:                                   # vLLM refuses the settings
            continue
        Path(folder, f"{data['name']}.json").write_text(json.dumps(data, separators=(",", ":")))
    return exits.HOLDS


def main(argv):
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers.vllm_compare", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--offload", action="store_const", dest="draw", const=vllm_draw.draw_offload,
                        default=vllm_draw.draw_config, help="models of full attention with CPU offload instead")
    parser.add_argument("--compressed", action="store_const", dest="draw", const=vllm_draw.draw_compressed,
                        help="models with compressed rows instead")
    parser.add_argument("--record", nargs="+", metavar="FOLDER SEED", help="write recordings of these seeds instead")
    parser.add_argument("--out", default="vllm-difference.json", help="where the smallest differing recording goes")
    args = parser.parse_args(argv)
    if args.record:
        return keep(args.record[0], map(int, args.record[1:]), args.draw)
    compare(next(filter(None, map(vllm_draw.record, count()))), Counter())           # imports modules
    return run(args)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # vLLM's background threads do not end
