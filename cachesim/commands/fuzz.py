"""``cachesim fuzz -p PROFILE``: which conversations break a property under this rule set?"""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator

from cachesim.commands import exits
from cachesim.commands.common import add_json, count, profile_name
from cachesim.errors import BadInput, nearest, quoted
from cachesim.reports.console import complain, progress, say, say_json, show

if TYPE_CHECKING:
    from cachesim.fuzz.campaign import Block

EXAMPLES = 2000
ROUND = 2000          # conversations between two looks at the clock


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-p", "--profile", metavar="PROFILE", type=profile_name, default="",
                        help="rule set to search (default: llama.cpp's newest recorded)")  # fmt: skip
    parser.add_argument("--property", dest="properties", metavar="NAME", action="append", default=[],
                        help="property to check, may be repeated (default: all that one run can tell)")  # fmt: skip
    parser.add_argument("--model", dest="models", metavar="MODEL", action="append", default=[],
                        help="model to draw, may be repeated: layers, or a class A, W, R, H, HW, M")  # fmt: skip
    parser.add_argument("--mode", choices=("provenance", "exact"), default="provenance",
                        help="exact: with numbers, all rungs, some ten times slower (default provenance)")  # fmt: skip
    parser.add_argument("--examples", metavar="N", type=count, help=f"conversations to play (default {EXAMPLES})")
    parser.add_argument("--minutes", metavar="M", type=count, help="go on for so long instead")
    parser.add_argument("--seed", metavar="S", type=count, default=0, help="the same seed finds the same (default 0)")
    parser.add_argument("-j", "--jobs", metavar="J", type=count, default=1, help="processes to use (default 1)")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing conversations as long as they are")
    parser.add_argument("--out", metavar="FOLDER", help="write each failure as a scenario file into this folder")
    add_json(parser)


def run(args: Namespace) -> int:
    from cachesim.engines.registry import engine_of
    from cachesim.fuzz.campaign import Campaign, shrunk
    from cachesim.fuzz.found import campaign_data
    from cachesim.scenarios.schema import DEFAULT_PROFILE

    args.profile = args.profile or DEFAULT_PROFILE
    engine_of(args.profile)
    if args.minutes is not None and args.examples is not None:
        raise BadInput("--minutes and --examples say two things", hint="give one of them")
    for name in ("jobs", "minutes", "examples"):
        if getattr(args, name) == 0:
            raise BadInput(f"--{name} must be at least 1")
    folder = _folder(args.out)
    properties, models = _properties(args.properties), _models(args.models, args.profile)
    campaign, cut = Campaign(args.profile), False
    try:
        for block in _blocks(args, properties, models):
            campaign.take(block)
        if not args.no_shrink:
            groups = list(campaign.failures)
            for group in progress(groups, len(groups), "shrinking"):
                failure = campaign.failures[group]
                campaign.failures[group] = shrunk(
                    failure, args.profile, models, mode=args.mode, properties=properties
                )
    except KeyboardInterrupt:
        cut = True
        complain("interrupted: what was found so far")
    data = campaign_data(campaign, properties, args.seed)
    _tell(data, args.json, folder)
    return exits.INTERRUPTED if cut else exits.BROKEN if campaign.failures else exits.HOLDS


def _tell(data: dict[str, Any], as_json: bool, folder: Path | None) -> None:
    from cachesim.reports.fuzz_report import fuzz_report

    if as_json:
        say_json(data)
    else:
        show(fuzz_report(data))
    for one in data["failures"]:
        if "toml" not in one:
            continue
        if folder is not None:
            file = folder / f"{one['id']}.toml"
            file.write_text(one["toml"], encoding="utf-8")
            complain(f"{file} written")
        elif not as_json:
            say("\n" + one["toml"])


def _blocks(args: Namespace, properties: tuple[str, ...], models: tuple[str, ...]) -> Iterator[Block]:
    from cachesim.fuzz.campaign import blocks, run

    if not args.minutes:
        todo = blocks(args.profile, properties, models, args.seed, args.examples or EXAMPLES, mode=args.mode)
        yield from progress(run(todo, args.jobs), len(todo), "conversations")
        return
    end, first = time.monotonic() + 60 * args.minutes, 0
    while time.monotonic() < end:
        todo = blocks(args.profile, properties, models, args.seed, first + ROUND, first, args.mode)
        yield from progress(run(todo, args.jobs), len(todo), f"conversations from {first} on")
        first += ROUND


def _folder(out: str | None) -> Path | None:
    if out is None:
        return None
    folder = Path(out)
    if not folder.is_dir():
        raise BadInput("no such folder", file=out)
    return folder


def _properties(asked: list[str]) -> tuple[str, ...]:
    from cachesim.fuzz.campaign import ALL
    from cachesim.fuzz.properties import PROPERTIES

    for name in asked:
        if name not in (*ALL, "all"):
            raise BadInput(f"unknown property {quoted(name)}", hint=nearest(name, ALL) or ", ".join(ALL))
    return ALL if "all" in asked else tuple(dict.fromkeys(asked)) or tuple(PROPERTIES)


def _models(asked: list[str], profile: str) -> tuple[str, ...]:
    from cachesim.fuzz.worlds import KINDS, MODELS

    known = MODELS[profile.partition("@")[0]]
    found: list[str] = []
    for name in asked:
        fitting = [one for one in known if one == name or one in KINDS.get(name, ())]
        if not fitting:
            raise BadInput(f"no model {quoted(name)} is drawn for this engine", hint=", ".join((*KINDS, *known)))
        found += fitting
    return tuple(dict.fromkeys(found))

