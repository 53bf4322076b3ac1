"""How much faster than the real llama-server? Both in one run, CPU seconds, one core, the median of five.

    python -m tests.bench.ratios [--runs N]

Replay: scripts of recordings are played on the real server (its start, which loads the model, is taken off), and
replayed here. Search: drawn conversations with their cold twins, on the real server and here, judged. The binary is the
one that `make live` has built; nothing is built here.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, Callable

from tests.bench.growth import on_one_core
from tests.live.build import BUILDS, cache, works
from tests.shared import MODELS, TRACES

COMMIT, PROFILE = "b11549", "llama_cpp@b11549"
EVERY, MOST = 8, 6           # recordings: every eighth of the sequential ones, so many at the most
SETS, EACH = 3, 8             # option sets of the campaign of `make live`, conversations of each
WANTED = {"replay, no model": 8.0, "replay, provenance, judged": 6.0, "replay, exact": 1 / 1.5, "search": 100.0}


def server() -> Path | None:
    """The real server, None if it was not built here."""
    found = cache() / "build" / BUILDS[COMMIT].folder / "bin" / "llama-server"
    return found if works(found) else None


def children() -> float:
    """CPU seconds of all processes that we started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spent(clock: Callable[[], float], what: Callable[..., object], *args: object) -> float:
    """What the clock says it took."""
    begin = clock()
    what(*args)
    return clock() - begin


def recordings() -> list[Path]:
    """Recordings of the build that are played again."""
    from tests.bench.cases import sequential

    files = [one for one in sorted((TRACES / "llama_cpp_b11549").glob("*.json")) if sequential(one)]
    return files[::EVERY][:MOST]


def real_replay(file: Path, binary: Path) -> float:
    """CPU seconds of the real server for a recording, without its start."""
    import json

    from cachesim.live.llama_server.recorder import Recorder, Start
    from tests.live.again import again

    def started() -> None:
        trace = json.loads(file.read_text("utf-8"))
        start = Start(binary, MODELS / trace["model"], tuple(trace["flags"]), trace["commit"],
                      tuple(trace["base_flags"]))  # fmt: skip
        with Recorder(start):
            pass

    return spent(children, again, file, binary, MODELS) - spent(children, started)


def our_replay(file: Path, mode: str) -> float:
    """CPU seconds of ours."""
    from cachesim.commands.replay import replay_one

    return spent(process_time, replay_one, (file, mode))


def searches(binary: Path, models: Path) -> tuple[float, float]:
    """CPU seconds of the same drawn conversations: the real server's, and ours."""
    from cachesim.fuzz.examine import findings
    from cachesim.fuzz.properties import PROPERTIES
    from cachesim.live.llama_server.gguf_models import find_model
    from cachesim.live.llama_server.recorder import Recorder, Start
    from tests.live.play import Table
    from tests.live.worlds import option_set

    def start(flags: Any, model: str) -> Recorder:
        return Recorder(Start(binary, models / find_model(model).file, tuple(flags), COMMIT))

    real, ours = 0.0, 0.0
    for number in range(SETS):
        options = option_set(0, number)
        with TemporaryDirectory() as out:
            table = Table(start, PROFILE, Path(out), 0)
            once = spent(children, table.play, options, 0, 0)
            real += spent(children, table.play, options, 0, EACH) - once
        judges: dict[str, Any] = {}
        findings(options.case(EACH), PROFILE, tuple(PROPERTIES), judges)          # the engine is loaded before
        for i in range(EACH):
            ours += spent(process_time, findings, options.case(i), PROFILE, tuple(PROPERTIES), judges)
    return real, ours


def main(argv: list[str]) -> int:
    """Measure and print; 0 also where there is nothing to measure."""
    parser = argparse.ArgumentParser(prog="tests.bench.ratios")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(argv)
    binary, files = server(), recordings()
    if binary is None or not files:
        what = f"llama-server {COMMIT} is not built here (make live builds it)" if binary is None else "no recordings"
        print(f"ratios against the real server: absent, {what}")
        return 0
    on_one_core()
    from tests.live.worlds import write_models

    found: dict[str, list[float]] = {name: [] for name in WANTED}
    with TemporaryDirectory() as folder:
        write_models(Path(folder))
        for _ in range(args.runs):
            real = sum(real_replay(file, binary) for file in files)
            for name, mode in zip(WANTED, ("none", "provenance", "exact"), strict=False):
                found[name].append(real / sum(our_replay(file, mode) for file in files))
            theirs, ours = searches(binary, Path(folder))
            found["search"].append(theirs / ours)
    print(f"{'times faster than llama-server ' + COMMIT:44} {'measured':>9} {'lowest':>7} {'aim':>6}")
    for name, ratios in found.items():
        value = median(ratios)
        missed = "" if value >= WANTED[name] else "   MISSED"
        print(f"{name:44} {value:>9.2f} {min(ratios):>7.2f} {WANTED[name]:>6.2f}{missed}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
