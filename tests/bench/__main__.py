"""Table of all benchmarks against their aims: each in a separate process, median of five runs on a single core."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from tests.bench.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(name: str) -> float | None:
    """Run a benchmark in a fresh process. Return None if it cannot be measured here (no recorded traces)."""
    command = [sys.executable, "-m", "tests.bench.cases", name]
    out = subprocess.run(command, cwd=ROOT, env={**os.environ, **ONE_CORE}, capture_output=True, text=True, check=True)
    word = out.stdout.strip()
    return None if word == "absent" else float(word)


def main(wanted: list[str]) -> None:
    """Run and print the benchmarks whose names begin with an argument; without arguments all."""
    print(f"{'case':44} {'measured':>12} {'aim':>12}  unit")
    for name, case in CASES.items():
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        found = [measure(name) for _ in range(case.runs)]
        values = [value for value in found if value is not None]
        if not values:
            print(f"{name:44} {'absent':>12} {case.aim:>12,g}  {case.unit} (../shared/traces is not there)")
            continue
        value = median(values)
        good = value >= case.aim if case.more else value <= case.aim
        print(f"{name:44} {value:>12,.4g} {case.aim:>12,g}  {case.unit}{'' if good else '   MISSED'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
    if not sys.argv[1:]:
        for part in ("growth", "ratios"):
            print(flush=True)
            subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], cwd=ROOT, env={**os.environ, **ONE_CORE})
