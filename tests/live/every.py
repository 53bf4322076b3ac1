"""``make live``: builds the pinned servers and runs the campaign on each, or on the server that LLAMA_SERVER names.

For N conversations the newest build runs all, each older build a fifth; the time is divided in proportion.
"""
from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.live import build
from tests.live.build import PINNED, Missing

OLDER = 0.2                 # share of an older build


def main(argv: Sequence[str], campaign: Callable[[list[str]], int] | None = None) -> int:
    """Return the worst exit code of the campaigns; 2 if a server is missing."""
    args = _arguments(argv)
    given = os.environ.get("LLAMA_SERVER", "")
    try:
        if given and build.is_ik(Path(given)):
            print(f"{given} is a server of ik_llama.cpp: make live IK_SERVER={given}", file=sys.stderr)
            return 2
        builds = PINNED[:1] if args.kit else PINNED
        servers = [one(Path(given), args.commit)] if given else [(commit, build.server_of(commit)) for commit in builds]
    except Missing as why:
        print(why, file=sys.stderr)
        return 2
    if campaign is None:
        from tests.live.__main__ import main as campaign
    weights = [1.0 if n == 0 else OLDER for n in range(len(servers))]
    codes = []
    for (commit, server), weight in zip(servers, weights, strict=True):
        minutes = args.minutes * weight / sum(weights)
        words = ["--server", server, "--commit", commit, "--seed", args.seed, "--jobs", args.jobs,
                 "-n", round(args.n * weight), "--minutes", f"{minutes:.2f}",
                 *(["--kit", args.kit] if args.kit else [])]  # fmt: skip
        codes.append(campaign(list(map(str, words))))
        if codes[-1] == 130:
            return 130
    print("ik_llama.cpp: not run (IK_SOURCE=FOLDER names a checkout, IK_SERVER=PATH a server)")
    return max(codes)


def one(server: Path, commit: str) -> tuple[str, Path]:
    """Return build and path of the named binary. Raise Missing if the build is unknown."""
    said = build.commit_of(server)
    if not (commit or said):
        raise Missing(f"{server}: build unknown; name it: make live LLAMA_SERVER={server} COMMIT=b11549")
    return commit or said, server


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make live", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="conversations on the newest build, earlier runs included")
    parser.add_argument("--minutes", type=float, default=30, help="for all servers together, building aside")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--commit", default="", help="the build of LLAMA_SERVER, if it does not say it")
    parser.add_argument("--kit", default="", help="what is drawn, on the newest build only (default: texts)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
