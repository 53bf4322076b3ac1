"""``cachesim try NOTATION``: what happens to these requests, written in one line?"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cachesim.commands import exits
from cachesim.commands.common import add_json, add_limits, add_profiles, add_settings, scenario_of_line
from cachesim.commands.jobs import Job, each, exit_code, run_job
from cachesim.commands.pictures import add_pictures, write_pictures
from cachesim.commands.run import report


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("notation", metavar="NOTATION", help="requests in one line, such as S40.A60/B80/S.C50")
    parser.add_argument("--model", default="GGGA", help="layers such as GGGA, or a recorded model (default GGGA)")
    add_profiles(parser)
    add_settings(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    scenario = scenario_of_line(args.notation, args.model, args.profiles, args.settings)
    jobs = [Job(scenario, profile, "exact") for profile in scenario.profiles]
    runs, codes = each(jobs, run_job, str)
    report(runs, args.json, len(codes), getattr(args, "verbose", 0))
    write_pictures(args, [(scenario, data) for data in runs])
    return exits.worst([*codes, exit_code(runs)])
