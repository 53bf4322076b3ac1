"""Command ``cachesim why FILE|LINE N``: explain which decisions made request N reuse or re-evaluate its tokens.

The answer is printed first; the search for the rule that decided it and for better rule sets follows.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, NotInBuild
from cachesim.base.progress_bar import ProgressBar, progress
from cachesim.tools.picture.picture_options import (
    PictureFiles,
    PictureOptions,
    add_pictures,
    picture_files,
    recorder,
    write_pictures,
)
from cachesim.tools.run.arguments import (
    add_arithmetic,
    add_case,
    add_json,
    add_profiles,
    case_options,
    modes,
    profiles_of,
    read_under_engines,
    requested_mode,
)
from cachesim.tools.run.run_jobs import answers_code, run_each
from cachesim.tools.run.suggestions import after_why, say_next, unchanged
from cachesim.tools.run.work_arguments import add_limits, count

if TYPE_CHECKING:
    from cachesim.judging.judged_run import Run
    from cachesim.judging.request_cost import ObservedRuns
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.picture.picture_recorder import PictureRecorder


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    parser.add_argument("number", metavar="N", type=count, help="number of a request, from 0")
    add_profiles(parser)
    add_arithmetic(parser)
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


class AskedRequest(NamedTuple):
    """Request ``number`` of a scenario under a rule set, in mode "exact" or "provenance"."""

    scenario: Scenario
    profile: str
    mode: str
    number: int

    def __str__(self) -> str:
        return f"{self.scenario.file or self.scenario.id} under {self.profile}"


class AnsweredRequest(NamedTuple):
    """A request that was run, and its data without the search. ``observer``: what a picture shows of the run."""

    asked: AskedRequest
    run: Run
    data: dict[str, Any]
    observer: PictureRecorder | None


def run(args: Namespace) -> int:
    pictures = picture_files(args)
    options = case_options(args)
    scenarios = read_under_engines(args.case, options)
    for scenario in scenarios:
        if args.number >= len(scenario.steps):
            hint = f"0 to {len(scenario.steps) - 1}"
            raise BadInput(f"unknown request {args.number}", file=scenario.file, hint=hint)
    requested = requested_mode(exact=args.exact, provenance=args.provenance)
    asked = [
        AskedRequest(scenario, profile, mode, args.number)
        for scenario, mode in zip(scenarios, modes(scenarios, requested), strict=True)
        for profile in profiles_of(scenario, options.profiles)
    ]
    from cachesim.tools.run.why_report import answer_report, reasons_report

    is_compared = len(asked) > 1
    answered, codes = run_each(asked, lambda one: _answer(one, recorder(pictures, one.profile), is_compared), str)
    answers = [one.data for one in answered]
    if answers and not args.json:
        show(answer_report(answers))
    from cachesim.judging.request_cost import ObservedRuns, up_to

    runs = {one.scenario.engine: ObservedRuns(up_to(one.scenario, args.number), one.profile) for one in asked}
    found, failed = run_each(
        answered, lambda one: _reasons(one, runs[one.asked.scenario.engine]), lambda one: str(one.asked), label="",
    )  # fmt: skip
    codes += failed
    if args.json:
        from cachesim.judging.run_data import SCHEMA

        say_json({"schema": SCHEMA, "why": found})
    elif found:
        show(reasons_report(found, answers, verbose=args.verbose))
    if pictures.are_wanted():
        _write_pictures(pictures, args.number, answered, found)
    suggested = after_why({one.engine: one for one in scenarios}, found, unchanged([args.case], options))
    say_next(suggested, is_quiet=args.json or args.quiet)
    return exits.worst([*codes, answers_code((data["equal_cold"], data["told"]) for data in found)])


def _answer(asked: AskedRequest, observer: PictureRecorder | None, is_compared: bool) -> AnsweredRequest:
    """Run a request and return its data without the search. ``is_compared``: with the outcomes of other rule sets."""
    from cachesim.judging.judged_run import run_judged
    from cachesim.judging.why_data import answer_data

    run = run_judged(asked.scenario, asked.profile, asked.mode, watcher=observer)
    return AnsweredRequest(asked, run, answer_data(run, asked.number, is_compared), observer)


def _reasons(answered: AnsweredRequest, runs: ObservedRuns) -> dict[str, Any]:
    """Return the data of a request with the rule that decided its failure and the rule sets that reuse more. ``runs``:
    those of the requests up to this one."""
    from cachesim.judging.deciding_rule import deciding_rule
    from cachesim.judging.deciding_setting import deciding_setting
    from cachesim.judging.unused_point import unused_points
    from cachesim.judging.why_data import with_search

    run, number = answered.run, answered.asked.number
    others = _versions_that_reuse_more(run, number, runs)
    with ProgressBar() as bar:
        decided = deciding_rule(run, number, runs=runs, show=bar.show)
    settings = deciding_setting(run, number, decided)
    return with_search(answered.data, run, number, others, decided, unused_points(run, number), settings)


def _versions_that_reuse_more(run: Run, number: int, runs: ObservedRuns) -> list[tuple[str, int]]:
    """Return the recorded and proposed rule sets of the engine under which a request with re-evaluated tokens is
    correct and reuses more of them, with its reused tokens."""
    from cachesim.engines.registry import ENGINES

    ledger = run.requests[number].ledger
    if not ledger.charges:
        return []
    engine = ENGINES[run.scenario.engine]
    names = sorted({*engine.line, *engine.beside})
    found = []
    for name in progress(names, len(names), "comparing versions"):
        with suppress(NotInBuild):         # skip versions without an option of this scenario
            other = runs.reusing(engine.profiles[name], number, ledger.n_past)
            if other is not None and other[number].outcome.equal_cold is True:
                found.append((name, other[number].outcome.cache_n))
    return found


def _write_pictures(
    pictures: PictureFiles, number: int, answered: Sequence[AnsweredRequest], found: Sequence[dict[str, Any]]
) -> None:
    """Write the requested pictures of the runs, which point at request ``number``, with the reasons below them."""
    from cachesim.judging.run_data import run_data
    from cachesim.tools.picture.picture_recorder import PicturedRun
    from cachesim.tools.run.run_table import failures_report

    pictured = [PicturedRun(one.asked.scenario, run_data(one.run), one.observer)
                for one in answered if one.observer is not None]  # fmt: skip
    write_pictures(pictures, pictured, PictureOptions(focus=number, report=failures_report(found)))
