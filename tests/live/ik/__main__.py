"""``make live IK_SOURCE=FOLDER`` or ``IK_SERVER=PATH``: campaigns on a real ik_llama.cpp, with a single slot and with
several.

For N conversations with a single slot, N/2 are run with two to four. Then the log is imported and compared, and
`cachesim check` runs on the server.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.live import build
from tests.live.__main__ import main as campaign
from tests.live.check_ik import real
from tests.live.ik.logs import main as logs
from tests.live.ik.server import COMMIT
from tests.live.ik.table import main as table

PROFILE = "ik_llama@main"
KITS = {"ik_llama": 1.0, "ik_llama_slots": 0.5}
"""Kits of a campaign, and their shares of conversations."""


def main(argv):
    """Return the worst exit code of the campaigns; 2 without a server."""
    args = _arguments(argv)
    given, source = os.environ.get("IK_SERVER", ""), os.environ.get("IK_SOURCE", "")
    try:
        server = Path(given) if given else build.ik_binary(Path(source))
        said = build.said_version(server)
        if said is None:
            raise build.Missing(f"{server}: not a llama-server that says its version")
    except build.Missing as why:
        print(why, file=sys.stderr)
        return 2
    if COMMIT not in said:
        print(f"{server} does not name {COMMIT}, whose rules are compared: {said.strip()[:80]}", file=sys.stderr)
    codes = []
    for kit, share in KITS.items():
        words = ["--server", server, "--commit", COMMIT, "--profile", PROFILE, "--kit", kit,
                 "--seed", args.seed, "--jobs", args.jobs, "-n", round(args.n * share),
                 "--minutes", f"{args.minutes / len(KITS):.2f}"]  # fmt: skip
        codes.append(campaign(list(map(str, words))))
        if codes[-1] == 130:
            return 130
    table(["--seed", str(args.seed)])
    codes.append(logs(["--server", str(server), "--seed", str(args.seed)]))
    codes.append(real(server, build.cache() / "models" / "ik"))
    return max(codes)


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.ik", description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="conversations with one slot, earlier runs included")
    parser.add_argument("--minutes", type=float, default=30, help="for all campaigns together, building aside")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
