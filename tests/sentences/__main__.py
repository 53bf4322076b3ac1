"""Program: ``python -m tests.sentences --runs 2000`` compares the sentences of drawn runs with their events."""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections import Counter

from cachesim.base.errors import BadInput
from tests.sentences.drawn import draw_run
from tests.sentences.printed import compare_sentences


def main() -> int:
    """Compare, print the false sentences and their number. Return 1 if there are any."""
    parser = ArgumentParser(prog="python -m tests.sentences")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--engine", default="")
    args = parser.parse_args()
    runs, number, compared, kinds = 0, args.first, 0, Counter[str]()
    drawn = Counter[str]()
    while runs < args.runs:
        run, number = draw_run(number, args.engine), number + 1
        if run is None:
            continue
        try:
            found = compare_sentences(run.scenario, run.profile)
        except BadInput:
            continue
        runs, compared = runs + 1, compared + found.compared
        drawn.update(run.features)
        for request, text in found.false:
            kind = re.sub(r"\d+", "N", text)
            kinds[kind] += 1
            if kinds[kind] <= 3:
                print(f"draw {number - 1}, {run.profile}, request {request}: {text}", flush=True)
    print(f"{runs} runs, {compared} sentences compared, {sum(kinds.values())} false")
    print(", ".join(f"{name} {n}" for name, n in sorted(drawn.items())))
    for kind, n in kinds.most_common():
        print(f"{n:6} {kind}")
    return bool(kinds)


if __name__ == "__main__":
    raise SystemExit(main())
