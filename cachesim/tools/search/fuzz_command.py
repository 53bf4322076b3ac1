"""``cachesim fuzz -p PROFILE``: which conversations break a property under this rule set?"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Collection, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, say, say_json, show
from cachesim.base.errors import BadInput, Unwritable, nearest, quoted
from cachesim.base.reading import path_of
from cachesim.tools.picture.options import Shown, add_pictures, draw_cases, wanted
from cachesim.tools.run.arguments import (
    add_elsewhere,
    add_jobs,
    add_json,
    add_settings,
    count,
    known_profiles,
    minutes,
    profile_name,
    scenario_of_line,
)
from cachesim.tools.run.jobs import check_elsewhere
from cachesim.tools.run.next_step import after_fuzz, say_next

if TYPE_CHECKING:
    from cachesim.tools.search.campaign import Campaign
    from cachesim.tools.search.campaign_file import CampaignPlan
    from cachesim.tools.search.campaign_jobs import Clock
    from cachesim.tools.search.finding import Group
    from cachesim.tools.search.folder import CampaignFolder
    from cachesim.tools.search.stored_cases import StoredCaseResult

EXAMPLES = 2000


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--profile", metavar="PROFILE", type=profile_name, default="",
                        help="rule set to search (default: the newest recorded one of the first engine)")  # fmt: skip
    parser.add_argument("--against", metavar="PROFILE", type=profile_name, default="",
                        help="play the same under this rule set too; only what it does not have counts")  # fmt: skip
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", default=[],
                        help="property to check, may be repeated (default: all that one run can tell)")  # fmt: skip
    parser.add_argument("--model", dest="models", metavar="MODEL", action="append", default=[],
                        help="model to draw, may be repeated: layers, or a class A, W, R, H, HW, M")  # fmt: skip
    add_settings(parser, "of every server that is drawn: ")
    parser.add_argument("--mode", choices=("provenance", "exact"), default="provenance",
                        help="exact: full arithmetic, compares bits and argmax; about 10x slower "
                        "(default provenance)")  # fmt: skip
    parser.add_argument("--examples", metavar="N", type=count, help=f"conversations to play (default {EXAMPLES})")
    parser.add_argument("--minutes", metavar="M", type=minutes,
                        help="go on for so long instead; the last quarter is for shrinking")  # fmt: skip
    parser.add_argument("--seed", metavar="S", type=count, default=0, help="the same seed finds the same (default 0)")
    add_jobs(parser)
    add_elsewhere(parser, "conversations")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing conversations as long as they are")
    parser.add_argument("--out", metavar="FOLDER", help="write each failure as a scenario file into this folder, "
                        "when it is found and again when it is shrunk")  # fmt: skip
    parser.add_argument("--resume", action="store_true", help="go on with the campaign that is in the folder")
    parser.add_argument("--corpus", metavar="FOLDER", help="play the scenario files of this folder first; what one of "
                        "them shows is not shrunk again")  # fmt: skip
    add_json(parser)
    add_pictures(parser)


def run(args: Namespace) -> int:
    begin = time.monotonic()            # the imports take time too
    from cachesim.base.shard import WHOLE
    from cachesim.tools.search.campaign_jobs import Clock
    from cachesim.tools.search.folder import CampaignFolder

    clock = Clock(begin, args.minutes, shrinks=not args.no_shrink)
    if args.minutes is not None and args.examples is not None:
        raise BadInput("--minutes and --examples say two things", hint="give one of them")
    if args.examples == 0:
        raise BadInput("--examples must be at least 1")
    if args.resume and args.out is None:
        raise BadInput("--resume goes on with what is in a folder", hint="name it with --out")
    plan = _plan(args)
    check_elsewhere(args.on, (plan.profile, plan.against))
    if args.out is None:
        return _search(args, plan, None, clock)
    folder = CampaignFolder(path_of(args.out), plan, args.shard or WHOLE)
    with folder.held():
        return _search(args, plan, folder, clock)


def _search(args: Namespace, plan: CampaignPlan, folder: CampaignFolder | None, clock: Clock) -> int:
    """Search, and tell what was found; the exit code."""
    from cachesim.base.shard import WHOLE
    from cachesim.tools.search.campaign import Campaign
    from cachesim.tools.search.campaign_jobs import CampaignSearch
    from cachesim.tools.search.folder import campaign_data
    from cachesim.tools.search.stored_cases import stored_cases, with_corpus

    campaign = Campaign(plan.profile) if folder is None else folder.begin(args.resume)
    search, ended, stopped = CampaignSearch(plan, campaign, folder, clock, args.jobs, args.on or ""), None, []
    try:
        if args.corpus is not None:
            search.check(stored_cases(path_of(args.corpus), plan, known_profiles()))
        search.play(None if args.minutes else args.examples or EXAMPLES, args.shard or WHOLE)
        if not args.no_shrink:
            search.shrink()
    except KeyboardInterrupt as error:
        ended = error
        complain("interrupted: what was found so far")
    except Unwritable as bad:           # no room for the files of a conversation: it would be so for the next
        complain(f"{bad}; what was found so far")
        stopped = [exits.BAD_INPUT]
    search.keep()
    if not args.no_shrink:
        _say_unshrunk(campaign, search.known)
    data = campaign_data(campaign, plan.properties, plan.seed, plan.models, plan.against)
    if search.corpus:
        data = with_corpus(data, search.corpus)
    _tell(data, args.json, folder)
    if wanted(args):
        _draw(args, data)
    say_next(args, after_fuzz(data))
    codes = [*_codes(campaign, folder), *_of(search.corpus), *stopped]
    return exits.interrupted(ended) if ended else exits.worst(codes)


def _draw(args: Namespace, data: dict[str, Any]) -> None:
    """A picture of the first failure that has a case."""
    one = next((one for one in data["failures"] if "line" in one), None)
    if one is None:
        complain("no failure to draw")
        return
    from cachesim.judging.try_command import settings

    profiles = [data["profile"], *([data["against"]] if "against" in data else [])]
    scenario = scenario_of_line(one["line"], one["model"], profiles, settings(one["server"]))
    shown = Shown(one["command"], f"{one['property']}: {one['text']}", one["step"])
    draw_cases(args, ((scenario, profile) for profile in profiles), shown)


def _of(corpus: Sequence[StoredCaseResult]) -> list[int]:
    """The exit codes of what stored cases show; of those that could not be played too."""
    from cachesim.tools.search.finding import exit_code

    codes = [exit_code(finding.name) for one in corpus for finding in one.found]
    return [*codes, exits.BAD_INPUT] if any(one.why for one in corpus) else codes


def _codes(campaign: Campaign, folder: CampaignFolder | None) -> list[int]:
    """Those of the failures; 2 if one of them could not be written where it should be."""
    from cachesim.tools.search.finding import exit_code

    codes = [exit_code(name) for name, *_ in campaign.failures]
    return [*codes, exits.BAD_INPUT] if folder is not None and folder.refused else codes


def _say_unshrunk(campaign: Campaign, known: Collection[Group]) -> None:
    left = sum(not one.shrunk and group not in known for group, one in campaign.failures.items())
    if left:
        complain(f"not shrunk: {left} of {len(campaign.failures)} failures")


def _tell(data: dict[str, Any], as_json: bool, folder: CampaignFolder | None) -> None:
    """Print a campaign; those failures as files that are in no folder and are short enough to be read."""
    from cachesim.tools.search.folder import group_of, with_failures
    from cachesim.tools.search.fuzz_report import fuzz_report

    if as_json:
        say_json(data)
        return
    show(fuzz_report(with_failures(data)))
    for one in data["failures"]:
        here = folder is None or group_of(one) in folder.missing
        if here and one["shrunk"] and "toml" in one:
            say("\n" + one["toml"])


def _plan(args: Namespace) -> CampaignPlan:
    """What is searched. Raises BadInput."""
    from cachesim.engines.registry import engine_of
    from cachesim.scenarios.schema import DEFAULT_PROFILE
    from cachesim.tools.search.campaign_file import CampaignPlan

    profile = args.profile or DEFAULT_PROFILE
    engine_of(profile)
    if args.against and (engine_of(args.against) is not engine_of(profile) or args.against == profile):
        what = "the same rule set" if args.against == profile else "of another engine"
        raise BadInput(f"--against {quoted(args.against)} is {what}", hint=f"another one than {profile} of its engine")
    narrowed = (*drawn_models(args.models, profile), *set_options(args.settings, profile))
    return CampaignPlan(profile, properties_asked(args.properties), narrowed, args.mode, args.seed, args.against)


def properties_asked(asked: list[str]) -> tuple[str, ...]:
    """The properties of these names, all that one run can tell where there are none. Raises BadInput."""
    from cachesim.tools.search.examine import ALL
    from cachesim.tools.search.properties import PROPERTIES

    for name in asked:
        if name not in (*ALL, "all"):
            raise BadInput(f"unknown property {quoted(name)}", hint=nearest(name, ALL) or ", ".join(ALL))
    return ALL if "all" in asked else tuple(dict.fromkeys(asked)) or tuple(PROPERTIES)


def set_options(settings: list[str], profile: str) -> tuple[str, ...]:
    """Options of every drawn server, as a search is narrowed by them. Raises BadInput."""
    from cachesim.judging import try_command
    from cachesim.scenarios.option_checks import parse_settings

    return tuple(try_command.settings(parse_settings(settings, profile.partition("@")[0])))


def drawn_models(asked: list[str], profile: str) -> tuple[str, ...]:
    from cachesim.tools.search.case import KINDS, MODELS

    known = MODELS[profile.partition("@")[0]]
    found: list[str] = []
    for name in asked:
        fitting = [one for one in known if one == name or one in KINDS.get(name, ())]
        if not fitting:
            raise BadInput(f"no model {quoted(name)} is drawn for this engine", hint=", ".join((*KINDS, *known)))
        found += fitting
    return tuple(dict.fromkeys(found))
