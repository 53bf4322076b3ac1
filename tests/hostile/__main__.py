"""``python -m tests.hostile``: the campaign, or one mutant."""

from __future__ import annotations

import shlex
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path

from cachesim.base.console import progress
from tests.hostile import judged, tally
from tests.hostile.campaign import STATE, Campaign
from tests.hostile.child import prepare, run
from tests.hostile.kinds import KINDS, mutant, wheel
from tests.hostile.mutant import CLI
from tests.hostile.smaller import smaller

SHOWN = 4000                 # characters of a file that are shown
SMALLER = 10                 # findings of different classes that are made smaller


def arguments():
    parser = ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("-n", "--number", type=int, default=1000, help="mutants (default 1000)")
    parser.add_argument("--start", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--seed", type=int, default=0, help="which mutants (default 0)")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--state", type=Path, default=STATE, help=f"folder of what is done (default {STATE})")
    parser.add_argument("--only", metavar="KIND:NUMBER", help=f"show and run one mutant ({', '.join(KINDS)})")
    parser.add_argument("--no-shrink", action="store_true", help="leave what is found as long as it is")
    return parser.parse_args()


def show(one):
    """The files and the command line of a mutant."""
    for name, data in one.files.items():
        text = data[:SHOWN].decode("utf-8", "backslashreplace").encode("unicode_escape").decode().replace("\\n", "\n")
        print(f"--- {name}, {len(data)} bytes\n{text}{'...' if len(data) > SHOWN else ''}")
    if one.given_to == CLI:
        words = [word if len(word) < 200 else f"{word[:100]}...({len(word)} characters)" for word in one.argv]
        print("---", ascii(shlex.join(["cachesim", *words]))[1:-1][:SHOWN])


def only(name):
    """Show and run one mutant; 1 if something is wrong with its end."""
    kind, _, number = name.partition(":")
    if kind not in KINDS or not number.isdigit():
        raise SystemExit(f"{name!r} is no mutant: KIND:NUMBER, of {', '.join(KINDS)}")
    one = mutant(kind, int(number))
    show(one)
    ended = run(one, KINDS[kind].parser)
    print(f"--- {'read, ' if ended.parsed else ''}exit {ended.code}, {ended.cpu:.2f} CPU s, {ended.mib:.0f} MiB, "
          f"{ended.stdout} bytes of result\n{ended.stderr.encode('unicode_escape').decode()[-2000:]}")  # fmt: skip
    found = judged.findings(ended)
    print(*found or ["nothing wrong"], sep="\n")
    return 1 if found else 0


def tell(total, shrink):
    """The counts, and what was found: once for each class, as small as it can be."""
    print(*tally.table(total), sep="\n")
    classes = {}
    for name, what in total["findings"]:
        classes.setdefault(what, []).append(name)
    print(f"{len(total['findings'])} findings of {len(classes)} classes")
    for i, (what, names) in enumerate(sorted(classes.items())):
        print(f"\n{what}\n    {len(names)} mutants: {' '.join(names[:8])}")
        if shrink and i < SMALLER:
            kind, _, number = names[0].partition(":")
            show(smaller(mutant(kind, int(number)), lambda one, what=what: what in judged.findings(run(one))))


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)        # workers are ended too
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
        print(f"{len(campaign.left())} shares are not done: the same command goes on")
        return 1
    return 0 if tally.good(total) else 1


if __name__ == "__main__":
    sys.exit(main())
