"""Recorder of logs of slow prompts: a plan of servers and conversations, each recorded once.

Run: python -m tests.logs.slow_logs.record --server LLAMA_SERVER --out FOLDER [--number 60] [--seed 0]. A server has one
thread, and a model of random weights that is deep enough to take seconds. Logs that exist are kept.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import ArgumentParser
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from cachesim.model.hash_mixing import Rng
from cachesim.tools.live.llama_server.gguf_models import write_model
from cachesim.tools.live.llama_server.process import version_text
from cachesim.tools.live.llama_server.server import ServerStart
from tests.logs.slow_logs.conversations import CONVERSATIONS
from tests.logs.slow_logs.recorded_server import FIRST_SPEED, RecordedServer
from tests.logs.slow_logs.truth import logged_tasks, matched, truths

BASE = ("-t", "1", "-tb", "1", "--no-warmup", "-fit", "off")
JOURNALD = "Nov 26 {hour:02}:{minute:02}:{second:02} box llama-server[8123]: "
BATCHES: Sequence[Sequence[str]] = (("-b", "512"), ("-b", "512"), (), ("-b", "1024", "-ub", "256"))
CACHES: Sequence[Sequence[str]] = ((), (), ("--cache-ram", "0"), ("--cache-ram", "100"))
CHECKPOINTS: Sequence[Sequence[str]] = ((), (), ("--ctx-checkpoints", "0"), ("--ctx-checkpoints", "4"),
                                        ("--checkpoint-min-step", "1024"))  # fmt: skip
OTHERS: Sequence[Sequence[str]] = ((),) * 7 + (("--no-cache-prompt",), ("-kvu",), ("-sps", "0.5"))
VERBOSITIES: Sequence[Sequence[str]] = ((), (), ("-lv", "4"))
CONTEXT = 24_576                # tokens of each slot
MODELS: Mapping[str, tuple[str, str]] = {
    "llama": ("A " * 5, "attention"),
    "gemma3": ("W512 W512 A " * 4, "sliding window 512 + attention"),
    "qwen35": ("qwen35-" + "G G G A " * 4, "recurrent + attention"),
    "mamba2": ("S " * 64, "recurrent"),
}
"""Notation and kind of memory of each model."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A log to record."""

    number: int
    model: str
    conversation: str
    flags: tuple[str, ...]
    journald: bool
    seed: int

    @property
    def name(self) -> str:
        """Name of its files without ending."""
        level = "lv4" if "-lv" in self.flags else "default"
        return f"{self.number:02}-{self.model}-{self.conversation}-{level}"


def plan_of(number: int, seed: int) -> Plan:
    """Return the plan of a log; every conversation and model occurs."""
    rng = Rng(seed * 1000 + number, "slow logs")
    names = list(CONVERSATIONS)
    conversation = names[number % len(names)]
    slots = rng.one((1, 1, 2, 4)) if conversation != "parallel" else rng.one((1, 2, 2, 4))
    flags: list[str] = ["-np", str(slots), "-c", str(CONTEXT * slots)]
    for choice in (BATCHES, CACHES, CHECKPOINTS, OTHERS, VERBOSITIES):
        flags += rng.one(choice)
    model = list(MODELS)[(number + number // len(names)) % len(MODELS)]
    return Plan(number, model, conversation, tuple(flags), rng.chance(15), seed * 1000 + number)


def record(plan: Plan, start: ServerStart, out: Path, speeds: dict[str, float]) -> dict[str, Any]:
    """Record a log and its truth; return the truth. ``speeds``: last speed of each model, updated. Raise BadInput,
    HttpFailure and ValueError."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        recorded = RecordedServer(start, Path(folder), log, Rng(plan.seed, "conversation"))
        recorded.speed = speeds.get(plan.model, FIRST_SPEED)
        try:
            CONVERSATIONS[plan.conversation](recorded)
        finally:
            recorded.stop()
        speeds[plan.model] = recorded.speed
        text = log.read_text(encoding="utf-8", errors="replace")
    text = text.replace(str(start.gguf.parent), "/models")
    truth = {
        "log": f"{plan.name}.log",
        "server": f"llama.cpp {start.commit}",
        "memory": MODELS[plan.model][1],
        "model": start.gguf.stem,
        "scenario": plan.conversation,
        "seed": plan.seed,
        "flags": list(plan.flags),
        "prefix": "journald" if plan.journald else "server's own",
        "requests": truths(matched(recorded.groups, logged_tasks(text))),
    }
    (out / f"{plan.name}.log").write_text(_journald(text) if plan.journald else text, encoding="utf-8")
    (out / f"{plan.name}.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    return truth


def _journald(text: str) -> str:
    lines = text.splitlines()
    stamps = [JOURNALD.format(hour=9, minute=number // 60 % 60, second=number % 60) for number in range(len(lines))]
    return "".join(f"{stamp}{line}\n" for stamp, line in zip(stamps, lines, strict=True))


def main(argv: list[str] | None = None) -> int:
    """Record all logs of the plan; return the exit code."""
    parser = ArgumentParser(prog="python -m tests.logs.slow_logs.record", description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="a llama-server, or the launcher of the wheel")
    parser.add_argument("--build", default="b11549", help="its build")
    parser.add_argument("--out", type=Path, required=True, help="folder of the logs")
    parser.add_argument("--number", type=int, default=60, help="logs")
    parser.add_argument("--first", type=int, default=0, help="number of the first log")
    parser.add_argument("--seed", type=int, default=57)
    args = parser.parse_args(argv)
    models = args.out / "models"
    models.mkdir(parents=True, exist_ok=True)
    speeds: dict[str, float] = {}
    print(version_text(args.server).strip(), file=sys.stderr)
    for number in range(args.first, args.first + args.number):
        plan = plan_of(number, args.seed)
        if (args.out / f"{plan.name}.json").exists():
            continue
        gguf = models / f"slow-{plan.model}.gguf"
        if not gguf.exists():
            write_model(MODELS[plan.model][0].strip(), gguf)
        began = time.monotonic()
        try:
            start = ServerStart(args.server, gguf, plan.flags, args.build, BASE)
            truth = record(plan, start, args.out, speeds)
        except Exception as error:  # one failed recording does not end the others
            print(f"{plan.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        times = [request["prompt_ms"] or 0 for request in truth["requests"]]
        slow = sum(1 for ms in times if 3000 <= ms <= 20000)
        print(f"{plan.name}: {len(times)} requests, {slow} of 3 to 20 s, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
