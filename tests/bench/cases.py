"""Benchmarks and their aims. ``python -m tests.bench.cases NAME`` prints the result of a benchmark as a number.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Callable, NamedTuple

from cachesim.base import limits
from cachesim.engines.base import Request
from cachesim.engines.registry import engine_of
from cachesim.events import Log
from tests import shared

ROOT = Path(__file__).resolve().parents[2]
TRACES = shared.TRACES / "llama_cpp"


class Case(NamedTuple):
    """A benchmark: function, aim, unit. ``more``: larger is better. ``runs``: number of runs for the median."""

    measure: Callable[[], float | None]
    aim: float
    unit: str
    more: bool
    runs: int = 5


def server(model: str, mode: str, ctx: int, ub: int, profile: str = "llama_cpp@b10587"):  # type: ignore[no-untyped-def]
    """Return a single-slot server without prompt cache or checkpoints, to measure evaluation alone."""
    flags = {"ctx_size": ctx, "batch_size": max(ub, 512), "ubatch_size": ub, "cache_ram": 0, "ctx_checkpoints": 0}
    return engine_of(profile).start(profile, model, flags, mode, Log())


def prefill(model: str, mode: str, n: int, ub: int, profile: str = "llama_cpp@b10587") -> float:
    """Return prompt tokens per second through the whole server."""
    seconds = 0.0
    for _ in range(2):                      # warm up: the interpreter specialises frequent code
        one = server(model, mode, n + 256, ub, profile)
        begin = perf_counter()
        one.complete(Request(tuple(range(1000, 1000 + n)), n_predict=1))
        seconds = perf_counter() - begin
    return n / seconds


def decode_ms(model: str, mode: str, n: int) -> float:
    """Return milliseconds per generated token after a prompt of n tokens."""
    one = server(model, mode, n + 512, 512)
    one.complete(Request(tuple(range(1000, 1000 + n)), n_predict=100))
    begin = perf_counter()
    one.complete(Request(tuple(range(1000, 1000 + n + 1)), n_predict=201))
    return (perf_counter() - begin) / 200 * 1000


def mlx_prefill(model: str, n: int) -> float:
    """Return prompt tokens per second through mlx-lm's server and batches: a text in steps of 2048 tokens."""
    seconds = 0.0
    for _ in range(2):
        one = engine_of(MLX).start(MLX, model, {}, "provenance", Log())
        begin = perf_counter()
        one.complete(Request(tuple(range(1000, 1000 + n)), n_predict=1))
        seconds = perf_counter() - begin
    return n / seconds


def mlx_decode_ms(model: str, rows: int, n: int) -> float:
    """Return milliseconds for a decode step of ``rows`` rows, whose ragged prompts have about n tokens."""
    one = engine_of(MLX).start(MLX, model, {}, "provenance", Log())
    for row in range(rows):
        one.submit(Request(tuple(range(1000 * row, 1000 * row + n + row)), n_predict=201))
    while any(row.n_gen < 1 for row in one.slots) or len(one.slots) < rows:
        one.iterate()
    begin = perf_counter()
    while one.working:
        one.iterate()
    return (perf_counter() - begin) / 200 * 1000


def mlx_bursts() -> float:
    """Return seconds to replay the recorded bursts of the real mlx-lm, labels only."""
    from tests.peers.bursts import Ours, World
    from tests.peers.test_bursts import WORLDS, Template, asked

    begin = perf_counter()
    for one in WORLDS:
        name, template, flags = one["world"]
        ours = Ours(World(name, Template(*template), flags), *one["spec"])
        for burst in one["bursts"]:
            ours.burst([asked(data) for data in burst["asked"]], [tokens for _, _, tokens in burst["said"]])
    return perf_counter() - begin


def sequential(file: Path) -> bool:
    """True if the recording contains only sequential requests, without drafts, shifts, moves and disconnects. The aims
    were set for these: 230 files, 1,779 steps."""
    data = json.loads(file.read_text())
    if {"--spec-type", "-md", "--context-shift", "--cache-reuse"} & set(data["flags"]):
        return False
    apart = {"cancel_after", "n_cache_reuse", "n_cmpl"}
    return all(step["op"] in ("completion", "chat") and not apart & step["request"].keys() for step in data["steps"])


def replay_ik(mode: str) -> float | None:
    """Return seconds to replay the recordings of ik_llama.cpp."""
    return _timed(sorted((TRACES.parent / "ik_llama").glob("*.json")), mode)


def replay(mode: str, everything: bool = False) -> float | None:
    """Return seconds to replay the sequential or all 409 recordings, with the cold oracle if tokens are computed."""
    if not TRACES.is_dir():
        return None
    return _timed([file for file in sorted(TRACES.glob("*.json")) if everything or sequential(file)], mode)


def _timed(files: list[Path], mode: str) -> float | None:
    from cachesim.tools.replay.command import replay_one

    begin = perf_counter()
    for file in files:
        replay_one((file, mode))
    return perf_counter() - begin if files else None


def fuzz(profile: str, kind: str, n: int = 200) -> float:
    """Return conversations per second: drawn, run by provenance and checked for every property of a single run. The
    engine is loaded before."""
    from cachesim.tools.search.campaign import CampaignJob, CampaignPlan, work
    from cachesim.tools.search.drawn_conversation import KINDS, MODELS
    from cachesim.tools.search.properties import PROPERTIES

    models = tuple(one for one in MODELS[profile.partition("@")[0]] if one in KINDS[kind])
    work(CampaignJob(CampaignPlan(profile, tuple(PROPERTIES), models, "provenance", 2), 0, 5))
    begin = perf_counter()
    work(CampaignJob(CampaignPlan(profile, tuple(PROPERTIES), models, "provenance", 1), 0, n))
    return n / (perf_counter() - begin)


def command(*words: str) -> float:
    """Return seconds from process start to end of a cachesim command."""
    begin = perf_counter()
    subprocess.run([sys.executable, "-m", "cachesim", *words], cwd=ROOT, capture_output=True, check=False)
    return perf_counter() - begin


def peak_mib() -> float:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def prefill_rss() -> float:
    """Return peak MiB of an exact prefill of 16k tokens."""
    server("GGGA", "exact", 16384 + 256, 512).complete(Request(tuple(range(16000)), n_predict=1))
    return peak_mib()


def slot_rss(mode: str) -> float:
    """Return peak MiB of a slot of 128k tokens with 32 checkpoints; in exact mode its cells are filled."""
    from tests.bench.big_slot import big_slot

    big_slot(mode)
    return peak_mib()


IK, MLX = "ik_llama@main", "mlx_lm@0.32.2"
SEED = "scenarios/llama_cpp/threads/llama-24143-entry-removed-hybrid.toml"
CASES: dict[str, Case] = {
    "exact prefill GGGA 512, ub 512": Case(partial(prefill, "GGGA", "exact", 512, 512), 10_000, "tokens/s", True),
    "exact decode GGGA after 512": Case(partial(decode_ms, "GGGA", "exact", 512), 0.5, "ms", False),
    "provenance prefill AAAA, ub 512": Case(
        partial(prefill, "AAAA", "provenance", 16384, 512), 500_000, "tokens/s", True),
    "provenance prefill GGGG, ub 512": Case(
        partial(prefill, "GGGG", "provenance", 16384, 512), 200_000, "tokens/s", True),
    "provenance prefill GGGA, ub 512": Case(
        partial(prefill, "GGGA", "provenance", 16384, 512), 200_000, "tokens/s", True),
    "provenance prefill AAAA, ub 16": Case(partial(prefill, "AAAA", "provenance", 2048, 16), 100_000, "tokens/s", True),
    "provenance prefill GGGA, ub 16": Case(partial(prefill, "GGGA", "provenance", 2048, 16), 100_000, "tokens/s", True),
    "ik_llama: provenance prefill GGGA, ub 512": Case(
        partial(prefill, "GGGA", "provenance", 16384, 512, IK), 200_000, "tokens/s", True),
    "ik_llama: provenance prefill GGGA, ub 16": Case(
        partial(prefill, "GGGA", "provenance", 2048, 16, IK), 100_000, "tokens/s", True),
    "ik_llama: replay, provenance": Case(partial(replay_ik, "provenance"), 5, "s", False, 3),
    "mlx_lm: provenance prefill GGGA": Case(partial(mlx_prefill, "GGGA", 16384), 15_000, "tokens/s", True),
    "mlx_lm: provenance decode GGGA, 8 rows": Case(partial(mlx_decode_ms, "GGGA", 8, 512), 4, "ms", False),
    "mlx_lm: recorded bursts, no model": Case(mlx_bursts, 5, "s", False, 3),
    "fuzz llama_cpp, class A": Case(partial(fuzz, "llama_cpp@b10587", "A"), 200, "per s", True, 3),
    "fuzz llama_cpp, hybrids": Case(partial(fuzz, "llama_cpp@b10587", "H"), 100, "per s", True, 3),
    "fuzz ik_llama, hybrids": Case(partial(fuzz, "ik_llama@main", "H"), 100, "per s", True, 3),
    "fuzz mlx_lm, hybrids": Case(partial(fuzz, "mlx_lm@0.32.2", "H"), 100, "per s", True, 3),
    "replay sequential, no model": Case(partial(replay, "none"), 4, "s", False, 3),
    "replay sequential, provenance": Case(partial(replay, "provenance"), 15, "s", False, 3),
    "replay sequential, exact": Case(partial(replay, "exact"), 180, "s", False, 1),
    "replay all 409, no model": Case(partial(replay, "none", True), 7, "s", False, 3),
    "replay all 409, provenance": Case(partial(replay, "provenance", True), 26, "s", False, 3),
    "cachesim --help": Case(partial(command, "--help"), 0.15, "s", False),
    "cachesim run one scenario": Case(partial(command, "run", SEED, "-p", "llama_cpp@b10587"), 1, "s", False),
    "128k slot + 32 checkpoints, exact": Case(partial(slot_rss, "exact"), 1024, "MiB peak", False, 1),
    "128k slot + 32 checkpoints, provenance": Case(partial(slot_rss, "provenance"), 200, "MiB peak", False, 1),
    "exact prefill of 16k tokens": Case(prefill_rss, 512, "MiB peak", False, 1),
}

if __name__ == "__main__":
    limits.lift({one.name: 10**12 for one in limits.OF_A_RUN})
    value = CASES[sys.argv[1]].measure()
    print("absent" if value is None else value)
