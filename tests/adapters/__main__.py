"""Runs every adapter on its released package: ``make adapters``, or ``make adapters ARGS="mlx_lm_lru vllm_blocks"``.
``ARGS=--planted`` plants a fault in the packages and states how soon it is found.

Each package has its own environment. If it cannot be made, or is too large, a message is printed and the stand-ins of
the adapter run instead. Exit code 1 if a report is not as expected.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.adapters.planted import FAULTS
from tests.adapters.table import ADAPTERS, Adapter
from tests.shared import ROOT

SECONDS = 15 * 60            # time limit for making an environment and running its adapters
BYTES = 6 * 2**30            # largest environment


def main() -> int:
    """The exit code."""
    known = [one.module for one in ADAPTERS]
    parser = argparse.ArgumentParser(prog="make adapters")
    parser.add_argument("modules", nargs="*", metavar="ADAPTER", help=f"one of {', '.join(known)}")
    parser.add_argument("--environments", type=Path, default=ROOT / ".venv-adapters", help="where they are made")
    parser.add_argument("--planted", action="store_true", help="with a fault in the package, which must be found")
    args = parser.parse_args()
    if wrong := set(args.modules) - set(known):
        parser.error(f"unknown adapter {sorted(wrong)[0]!r}")
    chosen = [one for one in ADAPTERS if one.module in (args.modules or known)]
    if args.planted:
        return max([run_planted(one, args.environments) for one in chosen if one.module in FAULTS], default=0)
    return max([run(one, args.environments) for one in chosen])


def run(adapter: Adapter, folder: Path) -> int:
    """Make the environment and run the adapter with each of its models."""
    began = time.monotonic()
    python, missing = environment(adapter, folder)
    if missing:
        print(f"{adapter.module}: skipped, {missing}; a stand-in, which is not the package:", flush=True)
        return subprocess.run([sys.executable, "-m", "tests.adapters.test_stand_ins", adapter.module], cwd=ROOT,
                              check=False).returncode  # fmt: skip
    worst = 0
    for kind in adapter.kinds:
        code, said = output([python, "-m", f"tests.adapters.{adapter.module}", kind], SECONDS)
        last = said.strip().rpartition("\n")[2]
        print(f"{adapter.module} {kind}: {last} ({time.monotonic() - began:.0f} s)", flush=True)
        if code:
            print(said, flush=True)
        worst = max(worst, int(bool(code)))
    return worst


def run_planted(adapter: Adapter, folder: Path) -> int:
    """Plant a fault in the package of an adapter and print how soon it is found."""
    python, missing = environment(adapter, folder)
    if missing:
        print(f"{adapter.module}: skipped, {missing}", flush=True)
        return 0
    code, said = output([python, "-m", "tests.adapters.planted", adapter.module], SECONDS)
    print(said.strip().rpartition("\n")[2], flush=True)
    return int(bool(code))


def environment(adapter: Adapter, folder: Path) -> tuple[str, str]:
    """Return the Python of the environment, and the reason why it cannot be used ("" if it can)."""
    place = folder / adapter.environment
    python, stamp = place / "bin" / "python", place / ".made"
    wanted = "\n".join([*adapter.packages, *adapter.alone])
    if stamp.is_file() and stamp.read_text() == wanted:
        return str(python), ""
    print(f"making {place}", file=sys.stderr)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
    steps = [[sys.executable, "-m", "venv", str(place)], [*pip, *adapter.packages]]
    steps += [[*pip, "--no-deps", *adapter.alone]] if adapter.alone else []
    for step in steps:
        code, said = output(step, SECONDS)
        if code:
            return "", f"{' '.join(step[-1:])} cannot be installed: {said.strip().rpartition(chr(10))[2]}"
    size = sum(file.lstat().st_size for file in place.rglob("*") if not file.is_symlink())
    if size > BYTES:
        return "", f"its environment has {size / 2**30:.1f} GiB"
    stamp.write_text(wanted)
    return str(python), ""


def output(command: list[str], seconds: int) -> tuple[int, str]:
    """Return exit code and all output of a command, which is killed after so many seconds."""
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds, check=False)  # fmt: skip
    except subprocess.TimeoutExpired:
        return 1, f"no end within {seconds} seconds"
    except OSError as error:
        return 1, str(error)
    return done.returncode, done.stdout


if __name__ == "__main__":
    sys.exit(main())
