"""``cachesim fuzz -p PROFILE``: searches for conversations that violate a property under a rule set."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Collection, Iterable, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say, say_json, show
from cachesim.base.errors import BadInput, Unwritable, nearest, quoted
from cachesim.base.untrusted_files import path_of
from cachesim.tools.picture.picture_options import PictureFiles, PictureOptions, add_pictures, picture_files
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run import arguments, work_arguments
from cachesim.tools.run.pictured_runs import draw_cases
from cachesim.tools.run.real_option import RealRuns, add_real, check_real_options, real_options, real_runs
from cachesim.tools.run.run_jobs import check_cluster_profiles
from cachesim.tools.run.suggestions import after_fuzz, say_next

if TYPE_CHECKING:
    from cachesim.base.shard import Shard
    from cachesim.tools.search.campaign import CampaignPlan
    from cachesim.tools.search.campaign_folder import CampaignFolder
    from cachesim.tools.search.campaign_jobs import CampaignClock

EXAMPLES = 2000


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--profile", metavar="PROFILE", type=arguments.profile_name, default="",
                        help="rule set to search (default: the newest recorded one of the first engine)")  # fmt: skip
    parser.add_argument("--against", metavar="PROFILE", type=arguments.profile_name, default="",
                        help="second rule set; only failures that it does not have count")  # fmt: skip
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", default=[],
                        help="property to check, may be repeated (default: those of a single run)")  # fmt: skip
    parser.add_argument("--model", dest="models", metavar="MODEL", action="append", default=[],
                        help="model to draw, may be repeated: layers, or a class A, W, R, H, HW, M, N, I")  # fmt: skip
    arguments.add_settings(parser, "of every drawn server: ")
    arguments.add_server(parser)
    parser.add_argument("--mode", choices=("provenance", "exact"), default="provenance", help="exact: full arithmetic, "
                        "compares bits and argmax; about 10x slower (default provenance)")  # fmt: skip
    parser.add_argument("--examples", metavar="N", type=work_arguments.count,
                        help=f"number of conversations (default {EXAMPLES})")  # fmt: skip
    parser.add_argument("--minutes", metavar="M", type=work_arguments.minutes,
                        help="duration instead [minutes]; the last quarter is for shrinking")  # fmt: skip
    parser.add_argument("--seed", metavar="S", type=work_arguments.count, default=0,
                        help="seed of the conversations; equal seeds give equal results (default 0)")  # fmt: skip
    work_arguments.add_jobs(parser)
    work_arguments.add_cluster(parser, "conversations")
    parser.add_argument("--no-shrink", action="store_true", help="do not shrink failing conversations")
    parser.add_argument("--out", metavar="FOLDER", help="folder for a scenario file of each failure, "
                        "written when it is found and again when it is shrunk")  # fmt: skip
    parser.add_argument("--toml", action="store_true", help="print a scenario file of each shrunk failure, too")
    parser.add_argument("--resume", action="store_true", help="continue the campaign in the folder")
    parser.add_argument("--corpus", metavar="FOLDER", help="folder of scenario files to run first; failures that they "
                        "show are not shrunk again")  # fmt: skip
    add_real(parser, "compare with real llama-servers instead: builds such as b11549, or paths")
    arguments.add_json(parser)
    add_pictures(parser)
    add_plot(parser, "the failures of each property")


class SearchOptions(NamedTuple):
    """How a search runs, beside its plan."""

    examples: int | None        # conversations to draw, None = until the time is over
    shard: Shard                # part of the conversations
    corpus: str | None          # folder of scenario files to run first, None = none
    resumes: bool               # continue the campaign in the folder
    shrinks: bool               # shrink failing conversations
    jobs: int                   # processes
    cluster: str                # address of a cluster, "" = this machine


class SearchOutput(NamedTuple):
    """What a search prints and draws."""

    as_json: bool
    with_toml: bool             # print the scenario files of shrunk failures
    is_quiet: bool              # suggest no command to type next
    pictures: PictureFiles
    plot: str                   # file for a plot, "" = none


def run(args: Namespace) -> int:
    begin = time.monotonic()            # the imports count, too
    from cachesim.base.shard import WHOLE
    from cachesim.engines.registry import engine_of
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.tools.search.campaign import CampaignPlan
    from cachesim.tools.search.campaign_folder import CampaignFolder
    from cachesim.tools.search.campaign_jobs import CampaignClock

    clock = CampaignClock(begin, args.minutes, shrinks=not args.no_shrink)
    if args.minutes is not None and args.examples is not None:
        raise BadInput("--minutes and --examples exclude each other", hint="give one of them")
    if args.examples == 0:
        raise BadInput("--examples must be at least 1")
    if args.resume and args.out is None:
        raise BadInput("--resume needs a folder", hint="add --out FOLDER")
    profile = args.profile or DEFAULT_PROFILE
    engine_of(profile)
    if args.against:
        engine_of(args.against)
    if args.against == profile:
        raise BadInput(f"--against {quoted(args.against)} is the rule set of -p itself", hint="name another one")
    models = drawn_models(args.models, args.settings, profile)
    plan = CampaignPlan(profile, requested_properties(args.properties), models, args.mode, args.seed, args.against)
    check_real_options(real_options(args))
    check_cluster_profiles(args.on, (plan.profile, plan.against))
    if args.real:
        used = {"-p": args.profile, "--against": args.against, "--property": args.properties, "--out": args.out,
                "--corpus": args.corpus, "--on": args.on, "--gguf": args.gguf, "--plot": args.plot}  # fmt: skip
        if not_used := [name for name, value in used.items() if value]:
            raise BadInput(f"{not_used[0]} does not go with --real", hint="each build has its own rule set")
        real = real_runs(real_options(args))
        assert real is not None
        numbers = count(0) if args.minutes else range(args.examples or REAL_EXAMPLES)
        return _search_real(real, plan, clock, numbers, shrinks=not args.no_shrink, as_json=args.json)
    options = SearchOptions(
        examples=None if args.minutes else args.examples or EXAMPLES,
        shard=args.shard or WHOLE,
        corpus=args.corpus,
        resumes=args.resume,
        shrinks=not args.no_shrink,
        jobs=args.jobs,
        cluster=args.on or "",
    )
    output = SearchOutput(
        as_json=args.json, with_toml=args.toml, is_quiet=args.quiet, pictures=picture_files(args),
        plot=plot_file(args),
    )  # fmt: skip
    if args.out is None:
        return _search(plan, None, clock, options, output)
    folder = CampaignFolder(path_of(args.out), plan, options.shard)
    with folder.held():
        return _search(plan, folder, clock, options, output)


REAL_EXAMPLES = 50          # drawn conversations on a real server, about a second each


def _search_real(
    real: RealRuns, plan: CampaignPlan, clock: CampaignClock, numbers: Iterable[int], *, shrinks: bool, as_json: bool
) -> int:
    """Run the drawn conversations of these numbers on the real servers and in the simulator, under the rule sets of
    their builds. Return the exit code."""
    searches = real.search(plan.seed, plan.models, shrinks)
    ended = None
    try:
        for number in numbers:
            if clock.to_play() == 0:
                break
            for search in searches:
                search.run(number, lambda: clock.to_shrink() == 0)
    except KeyboardInterrupt as error:
        ended = error
        complain("interrupted: results so far")
    found = [search.data() for search in searches]
    if as_json:
        say_json({"real": found})
    else:
        real.show_search(found)
    if ended is not None:
        return exits.interrupted(ended)
    if any(one["differences"] for one in found):
        return exits.BROKEN
    is_decided = all(one["conversations"] and not one["undecided"] for one in found)
    return exits.HOLDS if is_decided else exits.UNDECIDED


def _search(
    plan: CampaignPlan, folder: CampaignFolder | None, clock: CampaignClock, options: SearchOptions,
    output: SearchOutput,
) -> int:
    """Search and print the results. Return the exit code."""
    from cachesim.tools.search.campaign import Campaign
    from cachesim.tools.search.campaign_folder import campaign_data
    from cachesim.tools.search.campaign_jobs import CampaignSearch, stored_cases, with_corpus
    from cachesim.tools.search.failure_causes import with_causes
    from cachesim.tools.search.property_failure import exit_code

    campaign = Campaign(plan.profile) if folder is None else folder.begin(options.resumes)
    search = CampaignSearch(plan, campaign, folder, clock, options.jobs, options.cluster)
    ended = None
    codes = []
    try:
        if options.corpus is not None:
            search.check(stored_cases(path_of(options.corpus), plan, arguments.known_profiles()))
        search.play(options.examples, options.shard)
        if options.shrinks:
            search.shrink()
    except KeyboardInterrupt as error:
        ended = error
        complain("interrupted: results so far")
    except Unwritable as bad:           # further conversations would fail, too
        complain(f"{bad}; results so far")
        codes.append(exits.BAD_INPUT)
    search.keep()
    left = sum(not one.is_shrunk and group not in search.known for group, one in campaign.failures.items())
    if left and options.shrinks:
        complain(f"not shrunk: {left} of {len(campaign.failures)} failures")
    data = with_corpus(campaign_data(campaign, plan), search.corpus)
    if ended is None and data["failures"]:
        with suppress(KeyboardInterrupt):
            data = with_causes(data, plan, lambda: clock.to_shrink() != 0)
    _tell(data, folder, as_json=output.as_json, with_toml=output.with_toml)
    if output.pictures.are_wanted():
        _draw(output.pictures, data)
    if output.plot:
        from cachesim.tools.picture.plot_file import write_plots
        from cachesim.tools.search.campaign_folder import with_failures
        from cachesim.tools.search.fuzz_plot import fuzz_plots
        from cachesim.tools.search.report import fuzz_report

        write_plots(output.plot, fuzz_plots(data), fuzz_report(with_failures(data)))
    say_next(after_fuzz(data), is_quiet=output.as_json or output.is_quiet)
    codes += [exit_code(name) for name, *_ in campaign.failures]
    codes += [exit_code(finding.name) for one in search.corpus for finding in one.found]
    if any(one.why for one in search.corpus) or (folder is not None and folder.refused):
        codes.append(exits.BAD_INPUT)       # a stored case could not run or a failure could not be written
    return exits.interrupted(ended) if ended else exits.worst(codes)


def _draw(pictures: PictureFiles, data: dict[str, Any]) -> None:
    """Draw a picture of the first failure that has a case."""
    one = next((one for one in data["failures"] if "line" in one), None)
    if one is None:
        complain("no failure to draw")
        return
    from cachesim.judging.reproduce_command import settings
    from cachesim.tools.run.run_table import block_of_case
    from cachesim.tools.search.campaign_folder import with_failures

    profiles = [data["profile"], *([data["against"]] if "against" in data else [])]
    options = arguments.CaseOptions(model=one["model"], profiles=profiles, settings=settings(one["server"]))
    scenarios = arguments.cases_of_line(one["line"], options)
    under = {scenario.engine: scenario for scenario in scenarios}
    (case,) = with_failures({**data, "failures": [one]})["failures"]
    shown = PictureOptions(one["command"], f"{one['property']}: {one['text']}", one["step"], report=block_of_case(case))
    draw_cases(pictures, ((under[profile.partition("@")[0]], profile) for profile in profiles), shown)


def _tell(data: dict[str, Any], folder: CampaignFolder | None, *, as_json: bool, with_toml: bool) -> None:
    """Print the scenario files of shrunk failures that are asked for or could not be written, then the report.
    ``with_toml``: the scenario files are asked for."""
    from cachesim.tools.search.campaign_folder import group_of, with_failures
    from cachesim.tools.search.report import fuzz_report

    if as_json:
        say_json(data)
        return
    for one in data["failures"]:
        here = with_toml or (folder is not None and group_of(one) in folder.missing)
        if here and one["shrunk"] and "toml" in one:
            say(one["toml"] + "\n")
    show(fuzz_report(with_failures(data)))


def requested_properties(asked: list[str]) -> tuple[str, ...]:
    """Return the named properties; without names those that a single run can check. Raise BadInput if unknown."""
    from cachesim.tools.search.properties import PROPERTIES
    from cachesim.tools.search.run_properties import ALL

    found = check_property_names([name for name in asked if name != "all"], ALL)
    return ALL if "all" in asked else found or tuple(PROPERTIES)


def check_property_names(asked: Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Return these properties without duplicates. Raise BadInput for an unknown name."""
    for name in asked:
        if name not in known:
            raise BadInput(f"unknown property {quoted(name)}", hint=nearest(name, known) or ", ".join(known))
    return tuple(dict.fromkeys(asked))


def drawn_models(models: Sequence[str], given: Sequence[str], profile: str) -> tuple[str, ...]:
    """Return the models to draw under a rule set, and the options of every server. ``models``: names of models or of
    classes of them; ``given``: options ``key=value``. Raise BadInput if invalid."""
    from cachesim.engines.registry import ENGINES
    from cachesim.judging.reproduce_command import settings
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.search.drawn_conversation import KINDS, small_models

    engine = profile.partition("@")[0]
    known = small_models(ENGINES[engine].manual)
    found = list[str]()
    for name in models:
        fitting = [one for one in known if one == name or one in KINDS.get(name, ())]
        if not fitting:
            raise BadInput(f"unknown model for this engine: {quoted(name)}", hint=", ".join((*KINDS, *known)))
        found += fitting
    return (*dict.fromkeys(found), *settings(parse_settings(given, engine)))
