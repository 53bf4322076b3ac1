"""Command ``cachesim why FILE|LINE N``: explain which decisions made request N reuse or re-evaluate its tokens."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple

from cachesim.base import exits
from cachesim.base.console import progress, say_json, show
from cachesim.base.errors import BadInput, NotInBuild
from cachesim.tools.picture.picture_options import PictureOptions, add_pictures, recorder, write_pictures
from cachesim.tools.run.arguments import (
    add_arithmetic,
    add_case,
    add_json,
    add_profiles,
    case_of,
    chosen_profiles,
    modes,
)
from cachesim.tools.run.run_jobs import answers_code, run_each
from cachesim.tools.run.suggestions import after_why, say_next, typed
from cachesim.tools.run.work_arguments import add_limits, count

if TYPE_CHECKING:
    from cachesim.judging.find_change import RequestOutcome
    from cachesim.judging.request_cost import ObservedRuns
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.picture.picture_recorder import PicturedRun, PictureRecorder


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    parser.add_argument("number", metavar="N", type=count, help="number of a request, from 0")
    add_profiles(parser)
    add_arithmetic(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    scenario = case_of(args)
    if args.number >= len(scenario.steps):
        raise BadInput(f"unknown request {args.number}", file=scenario.file, hint=f"0 to {len(scenario.steps) - 1}")
    (mode,) = modes(args, [scenario])
    from cachesim.engines.registry import ENGINES
    from cachesim.judging.request_cost import observed_runs, up_to
    from cachesim.tools.run.run_table import failures_report
    from cachesim.tools.run.why_report import why_report

    # Run every recorded or proposed rule set in provenance mode, to find those under which the tokens are reused.
    engine = ENGINES[scenario.engine]
    names = sorted({*engine.line, *engine.beside})
    runs = observed_runs(up_to(scenario, args.number), names[0])
    known = {}
    for name in progress(names, len(names), "comparing versions"):
        with suppress(NotInBuild):         # skip versions without an option of this scenario
            known[name] = runs.result(engine.profiles[name])[args.number].outcome
    pictured: list[PicturedRun] = []
    found, codes = run_each(
        chosen_profiles(scenario, args.profiles),
        lambda profile: _data(
            AskedRequest(scenario, profile, mode, args.number), OtherVersions(known, runs), recorder(args, profile),
            pictured,
        ),
        lambda profile: f"{scenario.file or scenario.id} under {profile}",
    )
    if args.json:
        from cachesim.judging.run_data import SCHEMA

        say_json({"schema": SCHEMA, "why": found})
    else:
        show(why_report(*found, verbose=getattr(args, "verbose", 0)))
    shown = PictureOptions(focus=args.number, report=failures_report(found))
    write_pictures(args, pictured, shown)
    say_next(args, after_why(scenario, found, typed(args)))
    return exits.worst([*codes, answers_code((data["equal_cold"], data["told"]) for data in found)])


class AskedRequest(NamedTuple):
    """Request ``number`` of a scenario under a rule set, in mode "exact" or "provenance"."""

    scenario: Scenario
    profile: str
    mode: str
    number: int


class OtherVersions(NamedTuple):
    """Outcomes of a request under other rule sets, by name, and the runs up to this request."""

    outcomes: Mapping[str, RequestOutcome]
    runs: ObservedRuns


def _data(
    asked: AskedRequest, others: OtherVersions, observer: PictureRecorder | None, pictured: list[PicturedRun]
) -> dict[str, Any]:
    """Return the data of a request, with the rule that decided its failure. ``pictured`` receives the run if
    ``observer`` records it."""
    from cachesim.judging.deciding_rule import deciding_rule
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.run_data import run_data, why_data
    from cachesim.judging.unused_point import unused_points

    number = asked.number
    run = run_judged(asked.scenario, asked.profile, asked.mode, watcher=observer)
    kept = [(name, one.cache_n) for name, one in others.outcomes.items() if one.equal_cold is True]
    data = why_data(run, number, kept, deciding_rule(run, number, runs=others.runs), unused_points(run, number))
    if observer is not None:
        from cachesim.tools.picture.picture_recorder import PicturedRun

        pictured.append(PicturedRun(asked.scenario, run_data(run), observer))
    return data
