"""``python -m tests.live.real_wheels [BUILD...]``: wheels that start, the models that they load, and their log.

Each wheel is installed if it is missing. With a tiny model of each kind a conversation of three requests runs beside
the simulator. The table has a row for each wheel; below it stands why a model was not loaded.
"""

from __future__ import annotations

import argparse
import sys

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.live.llama_server.real.comparison import compare_case
from cachesim.tools.live.llama_server.real.real_server import find_servers
from cachesim.tools.live.llama_server.real.wheels import WHEELS

KINDS = ("A", "W8 A", "W8 W8", "S", "SA", "GA", "qwen35-GA", "GA+M", "CA", "C W8", "H")
LINE, SERVER = "S40.A20>4/S.B9/S.A.C5", {"parallel": 1, "ctx_size": 512}
STATES = {True: "equal", False: "DIFFERS", None: "-"}


def row_of(server):
    """Return the states by kind of model, and the reasons for those that were not compared."""
    states, reasons = [], {}
    for kind in KINDS:
        compared = compare_case(from_line(LINE, model=kind, profiles=(server.profile,), server=SERVER), server)
        states.append(STATES[compared.same])
        if compared.same is None:
            rows = compared.found.rows if compared.found else ()
            why = compared.left_out.rpartition("started: ")[2] or next(row.why for row in rows if row.same is None)
            reasons.setdefault(why, []).append(kind)
    return states, reasons


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.live.real_wheels", description=__doc__)
    parser.add_argument("builds", nargs="*", help="such as b11549 (default: all)")
    builds = parser.parse_args(argv).builds or [wheel.build for wheel in WHEELS]
    print(f"{'build':8}{'log read':10}" + "".join(f"{kind:>10}" for kind in KINDS))
    notes, differs = [], False
    for server in find_servers(",".join(builds), may_install=True):
        states, reasons = row_of(server)
        log_read = "yes" if server.is_logged else "no"
        print(f"{server.build:8}{log_read:10}" + "".join(f"{state:>10}" for state in states), flush=True)
        notes += [f"{server.build} {', '.join(kinds)}: {why}" for why, kinds in reasons.items()]
        differs = differs or STATES[False] in states
    print("\n".join(notes))
    return int(differs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
