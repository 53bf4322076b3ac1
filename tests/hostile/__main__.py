"""``python -m tests.hostile``: run a campaign, or show and run a single mutant."""

from __future__ import annotations

import shlex
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

from cachesim.base.progress_bar import progress
from tests.hostile import judged, tally
from tests.hostile.campaign import STATE, Campaign
from tests.hostile.child import prepare, run
from tests.hostile.kinds import KINDS, mutant, wheel
from tests.hostile.smaller import smaller

SHOWN = 4000                 # printed characters of a file, at most
SMALLER = 10                 # classes of findings to shrink, at most


def arguments():
    parser = ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("-n", "--number", type=int, default=1000, help="number of mutants (default 1000)")
    parser.add_argument("--start", type=int, default=0, help="first mutant (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the mutants (default 0)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="worker processes (default 1)")
    parser.add_argument("--state", type=Path, default=STATE, help=f"folder of results (default {STATE})")
    parser.add_argument("--only", metavar="KIND:NUMBER", help=f"mutant to show and run ({', '.join(KINDS)})")
    parser.add_argument("--no-shrink", action="store_true", help="print findings without shrinking them")
    return parser.parse_args()


def show(case):
    """Print the files and the command line of a mutant."""
    for name, data in case.files.items():
        text = data[:SHOWN].decode("utf-8", "backslashreplace").encode("unicode_escape").decode().replace("\\n", "\n")
        print(f"--- {name}, {len(data)} bytes\n{text}{'...' if len(data) > SHOWN else ''}")
    if case.argv:
        words = [word if len(word) < 200 else f"{word[:100]}...({len(word)} characters)" for word in case.argv]
        print("---", ascii(shlex.join(["cachesim", *words]))[1:-1][:SHOWN])


def only(name):
    """Show and run a mutant. Return 1 if it has findings."""
    kind, _, number = name.partition(":")
    if kind not in KINDS or not number.isdigit():
        raise SystemExit(f"not a mutant: {name!r} (expected KIND:NUMBER, KIND is {', '.join(KINDS)})")
    case = mutant(kind, int(number))
    show(case)
    ended = run(case, KINDS[kind].parser)
    print(f"--- {'read, ' if ended.parsed else ''}exit {ended.code}, {ended.cpu:.2f} CPU s, {ended.mib:.0f} MiB, "
          f"{ended.stdout} bytes of result\n{ended.stderr.encode('unicode_escape').decode()[-2000:]}")  # fmt: skip
    found = judged.findings(ended)
    print(*found or ["no findings"], sep="\n")
    return 1 if found else 0


def tell(total, shrink):
    """Print the counts and the findings, once for each class, with a shrunk example."""
    print(*tally.table(total), sep="\n")
    classes = {}
    for name, what in total["findings"]:
        classes.setdefault(what, []).append(name)
    print(f"{len(total['findings'])} findings of {len(classes)} classes")
    for name, what in total["shared"]:
        print(f"only after other mutants in its process: {name} {what}")
    for i, (what, names) in enumerate(sorted(classes.items())):
        print(f"\n{what}\n    {len(names)} mutants: {' '.join(names[:8])}")
        if shrink and i < SMALLER:
            kind, _, number = names[0].partition(":")
            show(smaller(mutant(kind, int(number)), lambda one, what=what: what in judged.findings(run(one))))


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)        # ends the workers, too
    args = arguments()
    prepare()
    if args.only:
        return only(args.only)
    campaign = Campaign(args.seed, args.number, args.start, args.state)
    todo = len(campaign.left())
    wheel()
    for _ in progress(campaign.work(args.jobs), todo, "hostile input"):
        pass
    total = tally.added(campaign.done())
    tell(total, not args.no_shrink)
    if campaign.left():
        print(f"{len(campaign.left())} shares not done (repeat the command to continue)")
        return 1
    return 0 if tally.good(total) else 1


if __name__ == "__main__":
    sys.exit(main())
