"""``python -m tests.live --server PATH --commit b11549``: conversations on a real server, compared with the simulator.

Resumes from the state folder. Exit code 1 if there is an unnamed difference.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from cachesim.engines.registry import commits
from tests.live.kits import KITS
from tests.live.play import Table
from tests.live.state import State

LEAST, MOST, SETS = 25, 50, 200          # bounds for conversations per option set; minimum of option sets
CACHE = Path.home() / ".cache" / "cachesim-live"
_STOP = None                             # set in every process: the user pressed Ctrl-C


def main(argv):
    args = _arguments(argv)
    for name in (signal.SIGINT, signal.SIGTERM):       # in the background a shell has SIGINT ignored
        signal.signal(name, signal.default_int_handler)
    args.profile = args.profile or commits().get(args.commit, "")
    if not args.profile:
        print(f"{args.commit}: no rule set is known for this build; not run")
        return 2
    kit = KITS[args.kit]
    file = args.state / f"{args.commit}-{kit.name}{args.seed}.jsonl"
    state = State(file)
    kit.write_models(args.models)
    per = max(LEAST, min(MOST, args.n // SETS))
    todo = [(number, state.done(number), per) for number in range((args.n + per - 1) // per)]
    todo = [(number, first, per - first) for number, first, per in todo if first < per]
    end = time.time() + 60 * args.minutes
    stop = multiprocessing.Event()
    with ProcessPoolExecutor(args.jobs, initializer=_begin, initargs=(stop,)) as pool:
        running = [pool.submit(_work, args, number, first, count, end) for number, first, count in todo]
        cut = False
        try:
            _take(running, state)
        except KeyboardInterrupt:
            cut = True
            stop.set()
            print("interrupted: what was played is kept", file=sys.stderr)
            for one in running:
                one.cancel()
            _take([one for one in running if not one.cancelled()], state)
    _print(args, state, file)
    return 130 if cut else 1 if state.sums()[2] else 0


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live", description=__doc__)
    parser.add_argument("--server", type=Path, required=True, help="the binary")
    parser.add_argument("--commit", required=True, help="its build, such as b11549")
    parser.add_argument("--profile", default="", help="rule set to compare with (default: that of the build)")
    parser.add_argument("--kit", choices=sorted(KITS), default="llama_cpp", help="what is drawn, and who records")
    parser.add_argument("--models", type=Path, default=CACHE / "models", help="folder of models, written if missing")
    parser.add_argument("-n", type=int, default=1000, help="conversations in all, those of earlier runs included")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shrink", type=float, default=60, help="seconds for one difference")
    parser.add_argument("--state", type=Path, default=CACHE / "state")
    return parser.parse_args(argv)


def _begin(stop):
    global _STOP
    _STOP = stop
    for name in (signal.SIGINT, signal.SIGTERM):       # not SIG_IGN: the servers that are started would inherit it
        signal.signal(name, lambda *_: None)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _work(args, number, first, count, end):
    """Run an option set in a separate process."""

    def over():
        return _STOP.is_set() or time.time() > end

    kit = KITS[args.kit]

    def start(flags, model):
        return kit.recorder(args.server, args.models, args.commit, flags, model)

    table = Table(start, args.profile, args.state / "differences", args.shrink, kit.name)
    return None if over() else table.play(kit.option_set(args.seed, number), first, count, over)


def _take(running, state):
    """Store results as they arrive."""
    for one in as_completed(running):
        if (error := one.exception()) is not None:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            continue                               # its work is repeated when the campaign resumes
        tally = one.result()
        if tally is not None:
            state.add(tally)
            sums = state.sums()[0]
            print(f"option set {tally.number}: {tally.conversations} conversations in {tally.seconds:.0f} s, "
                  f"{len(tally.differences)} differences; {sums['conversations']} in all", file=sys.stderr)  # fmt: skip


def _print(args, state, file):
    sums, named, others = state.sums()
    print(f"{args.commit} against {args.profile}, {file}")
    for name, value in sums.items():
        print(f"  {name:16} {value:>8}")
    for title, table in (("named", named), ("DIFFERENT", others)):
        for key, files in sorted(table.items(), key=lambda pair: -len(pair[1])):
            print(f"  {title}: {len(files):>4}  {key}  ({files[0]})")
    if not others:
        print("  0 differences" + (" but those named" if named else ""))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
