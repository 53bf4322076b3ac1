"""Command line of the comparisons: ``python -m tests.peers classes --ops 100000 --seed 0`` prints a count of the
operations."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.peers import compare, lru_talk
from tests.peers.releases import NEWEST, rules_at
from tests.peers.worlds import Ours, Theirs

LRU_SHARE = 6                 # every sixth operation is on the prompt cache
RECORDED = 300                # bursts in the transcript
WANTED = ("merge", "extract", "extend", "filter", "trim", "prepare/finalize", "while ragged", "while wrapped")
ENOUGH = 5                    # percent of all operations


def classes(args):
    """Cache classes and prompt cache, ours and theirs."""
    began = time.perf_counter()
    release = args.release or NEWEST
    rules, theirs = rules_at(release), Theirs(args.source, newest=release == NEWEST)
    store = theirs.prompt_cache()
    lru_ops = args.ops // LRU_SHARE if store else 0
    tried = compare.run(Ours(rules.caches, theirs), theirs, args.ops - lru_ops, args.seed)
    tried.update(lru_talk.run(store, lru_ops, args.seed, rules.lru))
    _print(tried, time.perf_counter() - began)
    rare = [name for name in WANTED if tried[name] * 100 < ENOUGH * tried["operations"] and release == NEWEST]
    if rare:
        print("tried too rarely:", ", ".join(rare))
    return 1 if rare else 0


def _print(tried, seconds):
    total = tried["operations"]
    for name, n in sorted(tried.items(), key=lambda pair: (pair[0].count(" "), -pair[1])):
        print(f"{name:34} {n:>8} {100 * n / total:6.1f} %")
    print(f"{total} operations, 0 mismatches, {seconds:.0f} s")


def bursts(args):
    """Bursts of requests, through the real server and ours."""
    from tests.peers import bursts as found

    return found.main(args)


def single(args):
    """Conversations with servers that keep a single one."""
    from tests.peers import single as found

    return found.main(args)


def logs(args):
    """Logs of the real server, imported."""
    from tests.peers import logs as found

    return found.main(args)


def record(args):
    """Transcripts for the default suite, which replays them without MLX."""
    from tests.peers import bursts as found
    from tests.peers import transcript

    args.bursts, args.out = RECORDED, str(found.TRANSCRIPT)
    found.main(args)                              # first: comparing classes changes their block size
    print(transcript.record(Theirs(), args.seed))
    return 0


def evidence(args):
    """Evidence: scenarios run on the real server, with stored results."""
    from tests.peers import evidence as found

    return found.main(args)


def main(argv):
    """Run the chosen command."""
    parser = argparse.ArgumentParser(prog="python -m tests.peers", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for command in (classes, bursts, single, logs, record, evidence):
        sub = commands.add_parser(command.__name__, help=command.__doc__)
        sub.set_defaults(run=command)
        sub.add_argument("--ops", type=int, default=100_000)
        sub.add_argument("--seed", type=int, default=0)
        sub.add_argument("--bursts", type=int, default=1000)
        sub.add_argument("--talks", type=int, default=72, help="conversations whose log is imported")
        sub.add_argument("--release", default="", help="or commit of mlx-lm, where PYTHONPATH names a tree of it")
        sub.add_argument("--models", nargs="*", help="of the bursts (default: all); on a CPU, 0.28.4 ends at "
                         "qwen3_next prompts of different lengths, for which Metal has another path")
        sub.add_argument("--ids", nargs="*", help="scenarios to play (default: all of the installed version)")
        sub.add_argument("--out", default="", help="where a transcript of the bursts goes")
        sub.add_argument("--source", help="another version's cache.py, in place of the installed one")
    args = parser.parse_args(argv)
    return args.run(args)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)                  # the real server's threads still run, and mlx sometimes aborts when Python exits
