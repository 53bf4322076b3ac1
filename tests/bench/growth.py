"""Growth of CPU time with size: four points for each figure, every point in a separate process, on a single core.

    python -m tests.bench.growth [NAME...]              the table
    python -m tests.bench.growth --point NAME SIZE      CPU seconds of a point, and peak MiB
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from math import log2
from pathlib import Path
from statistics import median
from time import process_time
from typing import Callable, NamedTuple

from cachesim.base import limits
from cachesim.engines.base import Request
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.schema import Scenario, Step

ROOT = Path(__file__).resolve().parents[2]
LLAMA, IK, MLX = "llama_cpp@b11549", "ik_llama@main", "mlx_lm@0.32.2"
POINTS, RUNS, STEEPEST = 4, 3, 1.2


class Figure(NamedTuple):
    """A figure. ``make(n)``: requests of a size. ``size``: last of four points, each twice the previous. ``before``:
    seconds of that point when issue 18 was written, 0 = not possible. ``wanted``: the seconds it demands."""

    make: Callable[[int], list[Request]]
    size: int
    before: float
    wanted: float
    profile: str = LLAMA
    runs: int = RUNS


def word(number: int, n: int) -> tuple[int, ...]:
    """Return n tokens that no other word number has."""
    return tuple(range(number * 1_000_000 + 1, number * 1_000_000 + 1 + n))


def asked(prompt: tuple[int, ...], n: int, number: int, mark: int = 0) -> Request:
    """Return a request with a given answer; the last message begins at ``mark``."""
    return Request(prompt, n_predict=n, forced=word(4000 + number, n), user_starts=(mark,) if mark else ())


def short_requests(n: int) -> list[Request]:
    """Return turns of four conversations; every fifth turn restarts its conversation."""
    found, talks = [], [word(i, 20) for i in range(4)]
    for i in range(n):
        talk = talks[i % 4][:200] if i % 5 else talks[i % 4][:16]
        found.append(asked((*talk, *word(100 + i, 4)), 2, i, len(talk)))
        talks[i % 4] = (*found[-1].prompt, *word(4000 + i, 2))
    return found


def conversations(n: int) -> list[Request]:
    """Return conversations without a common prefix, through a single slot."""
    return [asked(word(i, 200), 4, i, 100) for i in range(n)]


def answer(n: int) -> list[Request]:
    """Return a request with an answer of n tokens."""
    return [asked(word(0, 20), n, 0)]


def prompt(n: int) -> list[Request]:
    """Return a request with a prompt of n tokens."""
    return [asked(word(0, n), 2, 0)]


def long_session(n: int) -> list[Request]:
    """Return turns of a conversation that begins with 100,000 tokens; every eighth turn omits the earlier answers."""
    found, talk = [], word(0, 100_000)
    for i in range(n):
        if i % 8 == 7:
            talk = talk[:-200]
        found.append(asked((*talk, *word(10 + i, 200)), 50, i, len(talk)))
        talk = (*found[-1].prompt, *word(4000 + i, 50))
    return found


FIGURES = {
    "1,000 short requests": Figure(short_requests, 1000, 10, 1.2),
    "200 conversations, prompt cache": Figure(conversations, 200, 52, 1),
    "answer of 16,000 tokens": Figure(answer, 16_000, 45, 3),
    "prompt of 256,000, llama.cpp": Figure(prompt, 256_000, 5.8, 2),
    "prompt of 256,000, ik_llama.cpp": Figure(prompt, 256_000, 55, 2, IK),
    "prompt of 256,000, mlx-lm": Figure(prompt, 256_000, 41, 2, MLX),
    "60 requests of 100k tokens": Figure(long_session, 60, 0, 10, runs=1),
}


def point(name: str, size: int) -> tuple[float, float]:
    """Return CPU seconds of a size, run by provenance and judged, and peak MiB of the process."""
    limits.lift({one.name: 10**12 for one in limits.OF_A_RUN})
    figure = FIGURES[name]
    requests = figure.make(size)
    context = 1024 * (2 + max(len(one.prompt) + one.n_predict for one in requests) // 1024)
    server = {} if figure.profile == MLX else {"ctx_size": context, "parallel": 1}
    if figure.profile != LLAMA:
        requests = [Request(one.prompt, n_predict=one.n_predict, forced=one.forced) for one in requests]
    steps = tuple(Step(one, None) for one in requests)
    engine = figure.profile.partition("@")[0]
    scenario = Scenario("growth", "", (), "", engine, "GGGA", (figure.profile,), server, {}, steps)
    begin = process_time()
    run_judged(scenario, figure.profile, "provenance")
    return process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name: str, size: int) -> tuple[float, float]:
    """Return ``point`` measured in a separate process, on the first available core."""
    command = [sys.executable, "-m", "tests.bench.growth", "--point", name, str(size)]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, preexec_fn=on_one_core)
    seconds, mib = map(float, out.stdout.split())
    return seconds, mib


def on_one_core() -> None:
    """Bind this process and its children to a single core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main(words: list[str]) -> None:
    """Run the figures and print a table, at most 80 columns wide."""
    if words[:1] == ["--point"]:
        print(*point(words[1], int(words[2])))
        return
    print(f"{'CPU s, judged':32}{'n/8':>6}{'n/4':>6}{'n/2':>6}{'n':>7}{'grows':>6}{'was':>6}{'aim':>5}  MiB")
    for name, figure in FIGURES.items():
        if words and not any(name.startswith(one) for one in words):
            continue
        sizes = [figure.size >> i for i in reversed(range(POINTS))]
        found = [[measured(name, size) for _ in range(figure.runs)] for size in sizes]
        seconds = [median(one for one, _ in each) for each in found]
        grows = log2(seconds[-1] / seconds[0]) / (POINTS - 1)
        missed = seconds[-1] > figure.wanted or grows > STEEPEST
        *less, most = (f"{one:.2f}" for one in seconds)
        print(f"{name:32}{''.join(f'{one:>6}' for one in less)}{most:>7}{grows:>6.2f}{figure.before or '-':>6}"
              f"{figure.wanted:>5g}{found[-1][0][1]:>5.0f}{' MISSED' if missed else ''}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
