"""``cachesim advise`` without requests: a check of the server's configuration before it starts."""

from __future__ import annotations

from argparse import Namespace

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput
from cachesim.base.progress_bar import LateBar
from cachesim.tools.run.arguments import case_options, read_under_engines

SCHEMA = 1             # version of the JSON form of `advise` without requests
REQUEST = "A8>1"       # any request: only the server of its scenario is read
UNUSED = {"sizes": "", "out": None, "svg": "", "html": "", "trace": "", "plot": ""}


def is_asked(args: Namespace) -> bool:
    """True if the command line names a server, and no requests."""
    return not args.cases and not args.purpose and bool(args.pasted or args.settings or args.profiles or args.model)


def run(args: Namespace) -> int:
    """Print the check of each server. Return the exit code. Raise BadInput for a server that does not start."""
    from cachesim.tools.advise.start_check import check_start
    from cachesim.tools.advise.start_report import start_data, start_report

    for name, default in UNUSED.items():
        if getattr(args, name, default) != default:
            raise BadInput(f"--{name} needs a scenario or a line of requests")
    found = []
    for scenario in read_under_engines(REQUEST, case_options(args)):
        for profile in scenario.profiles:
            with LateBar("simulating habits of clients"):
                data = start_data(check_start(scenario, profile))
            found.append(data)
            if not args.json:
                show(start_report(data))
    if args.json:
        say_json({"schema": SCHEMA, "start": found})
    return exits.HOLDS
