"""``cachesim advise FILE|LINE``: which flags, builds and requests would have helped?"""

from __future__ import annotations

import shlex
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from itertools import islice
from typing import TYPE_CHECKING, Any

from cachesim.base import exits
from cachesim.base.console import complain, progress, say_json, show
from cachesim.tools.picture.picture_options import Shown, add_pictures, draw_cases
from cachesim.tools.run.arguments import add_case, add_json, add_limits, add_profiles, case_of, chosen_profiles, count

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.advise.memory_meter import Sizes

SECONDS = 60           # after which a search ends unless told
TIP, SENT = 1_000_000, 200       # prompt tokens and requests that are played where nobody asked for advice,
ROUNDS, PART = 11_000, 128       # and tokens that are generated; so many of a prompt take as long as one


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    add_profiles(parser, "rule set to advise for (default: the newest of the file's under which something is lost); "
                 "may be repeated")  # fmt: skip
    parser.add_argument("--sizes", metavar="FILE|NAME", default="",
                        help="GGUF, config.json or name of the real model: memory in its MiB, and limits in MiB hold "
                        "as with it")  # fmt: skip
    parser.add_argument("--seconds", metavar="N", type=seconds, default=SECONDS,
                        help=f"stop trying after so many seconds (default {SECONDS})")  # fmt: skip
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def seconds(text: str) -> int:
    """An argument that is a number of seconds."""
    found = count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


def run(args: Namespace) -> int:
    from cachesim.tools.advise.report import advise_report, try_sentence

    scenario, sizes = sized(args)
    other = args.model or args.sizes
    asked = [args.case, *(["--model", scenario.model] if other else ()),
             *(word for one in args.settings for word in ("--set", one))]  # fmt: skip
    found, ended = [], None
    drawn: list[tuple[Scenario, str]] = []
    own = chosen_profiles(scenario, args.profiles)
    for profile in own if args.profiles else newest_that_loses(scenario, own):
        data, ended = advice_for(scenario, profile, sizes, args.seconds, asked, drawn)
        found.append({**data, "rule_sets": 1 if args.profiles else len(own)})
        if data["stopped"]:
            why = "interrupted" if ended else f"stopped after {args.seconds} seconds (--seconds)"
            complain(f"{why}: {data['tried']} of about {data['changes']} changes were tried")
        if ended is not None:
            break
    if args.json:
        say_json({"advise": found})
    else:
        show(*map(advise_report, found))
    tip = try_sentence(found[0]) if found else ""
    note = f"First as it is, then with the best advice. {tip}" if tip else "As it is: there is no advice."
    draw_cases(args, drawn[:2], Shown(f"cachesim advise {shlex.join(asked)}", note))
    if ended is not None:
        return exits.interrupted(ended)
    return exits.BROKEN if any(data["base"]["wrong"] for data in found) else exits.HOLDS


def sized(args: Namespace) -> tuple[Scenario, Sizes]:
    """The case, and the sizes of the real model that ``--sizes`` names, else ``--model``: a line has its layers then.
    Units of the tiny models where neither does. Raises BadInput."""
    from cachesim.engines.shared.known_models import find
    from cachesim.engines.shared.model_sizes import known_sizes, sizes_of
    from cachesim.scenarios.corpus import is_file
    from cachesim.tools.advise.memory_meter import UNITS, real_sizes, with_real_sizes

    named = args.sizes or (args.model if find(args.model or "") in known_sizes() else "")
    if not named:
        return case_of(args), UNITS
    real = sizes_of(named)
    if not args.model and not is_file(args.case):
        args.model = real.layers
    return with_real_sizes(case_of(args), real), real_sizes(real)


def advice_for(
    scenario: Scenario, profile: str, sizes: Sizes, most: int = SECONDS, asked: list[str] | None = None,
    drawn: list[tuple[Scenario, str]] | None = None,
) -> tuple[dict[str, Any], KeyboardInterrupt | None]:
    """The advice for a scenario under a rule set, after at most about so many seconds; and what interrupted the search.
    ``asked``: the words that name the case, None = its line; ``drawn``: takes the case as it is and with the best
    advice, each with its profile. Raises BadInput."""
    from cachesim.tools.advise.ranking import choose
    from cachesim.tools.advise.search import AdviceSearch, advice_data
    from cachesim.tools.advise.setup_changes import Setup

    until, stopped, ended = time.monotonic() + most, None, None
    search = AdviceSearch(Setup(scenario, profile))
    try:
        for _ in progress(search, len(search), "trying changes"):
            if time.monotonic() > until:
                stopped = "seconds"
                break
    except KeyboardInterrupt as error:
        stopped, ended = "interrupted", error
    advice = choose(search.base, search.bound.total, search.found, sizes)
    if drawn is not None:
        drawn += [(one.tried.case.scenario, one.tried.case.profile) for one in (advice.base, *advice.good[:1])]
    data = advice_data(search, advice, sizes, asked or ())
    return {**data, "stopped": stopped}, ended


def say_tip(args: Namespace, text: str, file: str) -> None:
    """The best advice for the scenario file of this text, in a line on stdout, where something helps of the first
    changes that are tried: as many as ``TIP``, ``SENT`` and ``ROUNDS`` allow, whatever the clock says; where they allow
    none, the command that tries them. ``file``: where the text was written, "" = nowhere. Nothing with -q or --json."""
    from rich.text import Text

    from cachesim.engines.registry import profiles
    from cachesim.scenarios.load import load_text
    from cachesim.tools.advise.memory_meter import UNITS
    from cachesim.tools.advise.ranking import choose
    from cachesim.tools.advise.report import try_sentence
    from cachesim.tools.advise.search import AdviceSearch, advice_data
    from cachesim.tools.advise.setup_changes import Setup

    if not text or args.json or args.quiet:
        return
    scenario = load_text(text, profiles().keys())
    tokens = sum(len(step.request.prompt) for step in scenario.steps)
    tries = min(TIP // max(1, tokens), SENT // len(scenario.steps) - 1)          # the case as it is is played first
    cost = sum(step.request.n_predict for step in scenario.steps) + tokens // PART
    if tries <= 0 or 2 * cost > ROUNDS:
        show(Text(f"What would help is not tried unasked for so much work: cachesim advise {file or 'FILE.toml'}"))
        return
    search = AdviceSearch(Setup(scenario, scenario.profiles[0]))
    tries = min(tries, len(search))
    for _ in progress(islice(search, tries), tries, "trying changes"):
        if cost * (2 + len(search.found)) > ROUNDS:
            break
    data = advice_data(search, choose(search.base, search.bound.total, search.found, UNITS), UNITS)
    if said := try_sentence(data):
        show(Text(f"Helps most: {said.removeprefix('Try: ')}; all of it: cachesim advise {file or 'FILE.toml'}"))


def newest_that_loses(scenario: Scenario, own: tuple[str, ...]) -> tuple[str, ...]:
    """The newest of a scenario's profiles, of the main branch if one is, under which tokens are evaluated again or
    answers are wrong; the newest of all where there is none. Raises BadInput."""
    from cachesim.engines.registry import engine_of
    from cachesim.tools.advise.setup_changes import loses

    if len(own) == 1:
        return own
    line = list(engine_of(own[0]).line)
    newest = sorted((name for name in own if name in line), key=line.index, reverse=True) or list(own)
    chosen = next((name for name in newest if loses(scenario, name)), newest[0])
    return (chosen,)

