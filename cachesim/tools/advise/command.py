"""``cachesim advise FILE|LINE``: finds flags, builds and client changes that save tokens or correct answers."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from itertools import islice
from typing import TYPE_CHECKING, Any

from cachesim.base import exits
from cachesim.base.console import complain, progress, say_json, show
from cachesim.base.escaping import shell_command, shell_word
from cachesim.tools.picture.picture_options import Shown, add_pictures, draw_cases
from cachesim.tools.run.arguments import add_case, add_json, add_limits, add_profiles, case_of, chosen_profiles, count

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.advise.memory_meter import Sizes

SECONDS = 60           # default time limit of a search
TIP, SENT = 1_000_000, 200       # limits of a tip that was not requested: prompt tokens and requests to run,
ROUNDS, PART = 11_000, 128       # and generated tokens; PART prompt tokens take as long as a generated token


def add_arguments(parser: ArgumentParser) -> None:
    add_case(parser)
    add_profiles(parser, "rule set to advise for (default: newest of the file's with re-evaluation or wrong answers); "
                 "may be repeated")  # fmt: skip
    parser.add_argument("--sizes", metavar="FILE|NAME", default="",
                        help="GGUF, config.json or name of the real model; memory and memory limits are in its MiB")
    parser.add_argument("--seconds", metavar="N", type=seconds, default=SECONDS,
                        help=f"time limit [s] (default {SECONDS})")  # fmt: skip
    add_limits(parser)
    add_json(parser)
    add_pictures(parser)


def seconds(text: str) -> int:
    """Parse a positive number of seconds."""
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
    for profile in own if args.profiles else newest_with_losses(scenario, own):
        data, ended = advice_for(scenario, profile, sizes, args.seconds, asked, drawn)
        found.append({**data, "rule_sets": 1 if args.profiles else len(own)})
        if data["stopped"]:
            why = "interrupted" if ended else f"stopped after {args.seconds} seconds (--seconds)"
            complain(f"{why}: {data['tried']} of about {data['changes']} changes tried")
        if ended is not None:
            break
    if args.json:
        say_json({"advise": found})
    else:
        show(*map(advise_report, found))
    tip = try_sentence(found[0]) if found else ""
    note = f"First run: unchanged. Second run: best advice. {tip}" if tip else "Unchanged run; no advice."
    draw_cases(args, drawn[:2], Shown(f"cachesim advise {shell_command(asked)}", note))
    if ended is not None:
        return exits.interrupted(ended)
    return exits.BROKEN if any(data["base"]["wrong"] for data in found) else exits.HOLDS


def sized(args: Namespace) -> tuple[Scenario, Sizes]:
    """Return the case and the sizes of the real model that ``--sizes`` names, else ``--model``; for a line also its
    layers. Without both, the sizes are units of the tiny models. Raise BadInput for an unknown model."""
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
    """Return the advice for a scenario under a rule set, and the interruption, if any. ``most``: time limit in seconds.
    ``asked``: words that name the case, None = its line. ``drawn`` receives the unchanged case and the case with the
    best advice, each with its profile. Raise BadInput if the case cannot run."""
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


def print_tip(args: Namespace, text: str, file: str) -> None:
    """Print the best advice for the scenario file of this text in a line, if any of the first changes helps. ``TIP``,
    ``SENT`` and ``ROUNDS`` limit the work independently of time; if they do not allow a trial, print the command for a
    full search. ``file``: path of the text, "" = it was not written. Print nothing with -q or --json."""
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
    tries = min(TIP // max(1, tokens), SENT // len(scenario.steps) - 1)          # the unchanged case is run first
    cost = sum(step.request.n_predict for step in scenario.steps) + tokens // PART
    command = f"cachesim advise {shell_word(file or 'FILE.toml')}"
    if tries <= 0 or 2 * cost > ROUNDS:
        show(Text(f"Skipped looking for improvements (too slow): run {command}"))
        return
    search = AdviceSearch(Setup(scenario, scenario.profiles[0]))
    tries = min(tries, len(search))
    for _ in progress(islice(search, tries), tries, "trying changes"):
        if cost * (2 + len(search.found)) > ROUNDS:
            break
    data = advice_data(search, choose(search.base, search.bound.total, search.found, UNITS), UNITS)
    if said := try_sentence(data):
        show(Text(f"Best change: {said.removeprefix('Try: ')}. All suggestions: {command}"))


def newest_with_losses(scenario: Scenario, own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the newest profile of the scenario under which tokens are re-evaluated or answers are wrong, preferably of
    the main branch; without such a profile the newest. Raise BadInput if the scenario cannot run."""
    from cachesim.engines.registry import engine_of
    from cachesim.tools.advise.setup_changes import loses

    if len(own) == 1:
        return own
    line = list(engine_of(own[0]).line)
    newest = sorted((name for name in own if name in line), key=line.index, reverse=True) or list(own)
    chosen = next((name for name in newest if loses(scenario, name)), newest[0])
    return (chosen,)

