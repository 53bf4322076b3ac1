"""``cachesim advise FILE|LINE|LOG|BODIES``: finds changes that save tokens or correct answers. ``--for agents`` finds
server settings for a workload (``agents_command``). Without requests: a check of the server before its start
(``start_command``)."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import complain, note, say_json, show
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.escaping import shell_command
from cachesim.base.limits import JSON_VALUES, OF_A_RUN, OF_AN_IMPORT, TRACE_BYTES, WORKLOAD_TOKENS
from cachesim.base.progress_bar import LateBar, progress
from cachesim.tools.advise import agents_command, start_command
from cachesim.tools.picture.picture_options import PictureOptions, add_pictures, picture_files
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run.arguments import (
    CASE,
    CaseOptions,
    add_json,
    add_model,
    add_profiles,
    add_server,
    add_settings,
    case_arguments,
    case_options,
    known_profiles,
    profiles_of,
    read_under_engines,
    with_settings,
)
from cachesim.tools.run.pictured_runs import draw_cases
from cachesim.tools.run.work_arguments import add_limits, count

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario
    from cachesim.tools.advise.case_files import CaseFiles
    from cachesim.tools.advise.memory_meter import Sizes
    from cachesim.tools.advise.saved_tokens import RepairCase
    from cachesim.tools.advise.search import AdviceSearch
    from cachesim.tools.advise.setup_changes import CaseArguments, Trial

SCHEMA = 4             # version of the JSON form of `advise`
SECONDS = 60           # default time limit of a search
IMPORTS = True         # ``args.imported`` reads logs and request bodies, whose tools need this one


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("cases", metavar="FILE|ID|LINE", nargs="*", help=f"{CASE}; with --for agents: request bodies "
                        "or recorded sessions (default: those of cachesim); without both: check of the server before "
                        "its start")  # fmt: skip
    add_model(parser)
    add_settings(parser)
    add_server(parser)
    agents_command.add_arguments(parser)
    add_profiles(parser, "rule set to advise for (default: newest of the file's with re-evaluation or wrong answers); "
                 "may be repeated")  # fmt: skip
    parser.add_argument("--sizes", metavar="FILE|NAME", default="",
                        help="GGUF, config.json or name of the real model; memory and memory limits are in its MiB")
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=None,
                        help="folder for a scenario file of each suggestion whose command would spell the requests")
    parser.add_argument("--seconds", metavar="N", type=seconds, default=SECONDS,
                        help=f"time limit [s] (default {SECONDS})")  # fmt: skip
    add_limits(parser, JSON_VALUES, TRACE_BYTES, WORKLOAD_TOKENS, *OF_AN_IMPORT)
    add_json(parser)
    add_pictures(parser)
    add_plot(parser, "evaluated tokens of the suggestions, or with --for agents of the settings against their memory")


def seconds(text: str) -> int:
    """Parse a positive number of seconds."""
    found = count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


def run(args: Namespace) -> int:
    from cachesim.tools.advise.case_files import CaseFiles
    from cachesim.tools.advise.report import advise_report, run_names, try_sentence
    from cachesim.tools.advise.setup_changes import case_arguments

    if args.purpose and args.out:
        raise BadInput("--out does not go with --for agents")
    if args.purpose:
        return agents_command.run(args)
    agents_command.check_unused(agents_command.AgentOptions(
        memory=args.memory, clients=args.clients, weights=args.weights, tokens=args.tokens, jobs=args.jobs
    ))  # fmt: skip
    if start_command.is_asked(args):
        return start_command.run(args)
    if len(args.cases) != 1:
        raise BadInput(f"expected a file, an id or a line, found {len(args.cases)} arguments")
    (text,) = args.cases
    file = plot_file(args)
    options = case_options(args)
    imported: RepairCase | None = args.imported(text, options)
    found = sized(AskedCase(text=text, options=options, sizes=args.sizes, limits=args.limits), imported)
    files = CaseFiles(args.out) if args.out else None
    done = _advise_each(found, imported, files, seconds=args.seconds, as_json=args.json)
    if args.json:
        say_json({"schema": SCHEMA, "advise": done.found})
    if files is not None:
        files.write()
    if done.found:
        first = done.found[0]
        named = _arguments(found.asked, found.scenarios[0], imported, files)
        command = f"cachesim advise {shell_command(case_arguments(named, text))}"
        shown = PictureOptions(command, try_sentence(first), names=run_names(first), report=advise_report(first))
        draw_cases(picture_files(args), done.drawn[:2], shown)
    if file:
        from rich.console import Group

        from cachesim.tools.advise.advice_plot import advice_plots
        from cachesim.tools.picture.plot_file import write_plots

        write_plots(file, advice_plots(done.found), Group(*map(advise_report, done.found)))
    if done.ended is not None:
        return exits.interrupted(done.ended)
    if any(data["log"] and data["log"]["is_refuted"] for data in done.found):
        return exits.UNDECIDED
    return exits.BROKEN if any(data["base"]["wrong"] for data in done.found) else exits.HOLDS


class AskedCase(NamedTuple):
    """The case and its server as the command line names them."""

    text: str                               # file, id or line
    options: CaseOptions = CaseOptions()
    sizes: str = ""                         # GGUF, config.json or name of the real model, "" = the model's own sizes
    limits: Sequence[tuple[str, int]] = ()  # names and amounts of --limit


class SizedCases(NamedTuple):
    """The case under each engine of its rule sets, with the sizes of the real model."""

    asked: AskedCase                # a line without a model has the layers of the real model
    scenarios: list[Scenario]       # one for each engine
    sizes: Sizes


class CaseAdvice(NamedTuple):
    """Advice under one rule set."""

    data: dict[str, Any]
    drawn: list[tuple[Scenario, str]]       # unchanged case, and the one with the best advice, with their rule sets
    ended: KeyboardInterrupt | None         # the interruption of the search, None = it was not interrupted


class AdviceRuns(NamedTuple):
    """Advice under each rule set as data, the cases to draw with their rule sets, and the interruption, if any."""

    found: Sequence[dict[str, Any]]
    drawn: Sequence[tuple[Scenario, str]]
    ended: KeyboardInterrupt | None


def _advise_each(
    cases: SizedCases, imported: RepairCase | None, files: CaseFiles | None, *, seconds: int, as_json: bool
) -> AdviceRuns:
    """Search for advice under each rule set of each engine until an interruption. ``seconds``: time limit of each
    search."""
    from cachesim.tools.advise.saved_tokens import RepairCase

    found: list[dict[str, Any]] = []
    drawn: list[tuple[Scenario, str]] = []
    asked = cases.asked
    requested = asked.options.profiles
    for scenario in cases.scenarios:
        named = _arguments(asked, scenario, imported, files)
        own = profiles_of(scenario, requested)
        about = {"rule_sets": 1 if requested else len(own), "assumes": imported.assumes if imported else "",
                 "log": _log_data(asked, imported, scenario)}  # fmt: skip
        case = (imported or RepairCase(scenario))._replace(scenario=scenario)
        for base in map(partial(_unchanged, scenario), own) if requested else [newest_with_losses(scenario, own)]:
            advice = _advised(case, base, cases.sizes, named, about, seconds=seconds, as_json=as_json)
            found.append(advice.data)
            drawn += advice.drawn
            if advice.ended is not None:
                return AdviceRuns(found, drawn, advice.ended)
    return AdviceRuns(found, drawn, None)


def _advised(
    case: RepairCase, base: Trial, sizes: Sizes, named: CaseArguments, about: dict[str, Any], *,
    seconds: int, as_json: bool,
) -> CaseAdvice:
    """Return the advice under a rule set. Print it unless JSON was requested: the lines of the unchanged case before
    changes are tried. ``base``: the unchanged case under the rule set. ``named``: arguments that name the case.
    ``about``: data of the case that no search changes. ``seconds``: time limit."""
    from cachesim.tools.advise.report import advise_report, case_note, case_report, found_report
    from cachesim.tools.advise.search import AdviceSearch, case_data

    own = [one.client for one in case.proposed if one.client is not None]
    search = AdviceSearch(base.case, case.excluded, base, own, judges_all=bool(case.proposed))
    known = {**case_data(search, case.has_texts), **about}
    is_early = not as_json and known["bound"]["holds"] is not None
    if is_early:
        show(case_report(known))
    elif not as_json:
        note(case_note(known))
    with unfinished("the search for advice was not finished"):
        advice = advice_for(search, case, sizes, seconds, named)
    data = {**advice.data, **about}
    if data["stopped"]:
        why = "interrupted" if advice.ended else f"stopped after {seconds} seconds (--seconds)"
        complain(f"{why}: {data['tried']} of about {data['changes']} changes tried")
    if not as_json:
        show(found_report(data) if is_early else advise_report(data))
    return advice._replace(data=data)


def _log_data(asked: AskedCase, imported: RepairCase | None, scenario: Scenario) -> dict[str, Any] | None:
    """Return what a log shows about its simulation, as data; None for other cases. ``command``: shows the
    numbers of the log."""
    from cachesim.tools.advise.setup_changes import Setup

    if imported is None or imported.facts is None:
        return None
    facts = imported.facts
    words = ["cachesim", "import", asked.text, *case_arguments(asked.options, asked.limits)]
    assumed = facts.assumed_options(Setup(scenario, scenario.profiles[0]))
    return {
        "printed_build": facts.printed_build or None, "before": facts.before, "assumed": list(assumed),
        "is_refuted": facts.is_refuted, "contradicted": list(facts.contradicted), "differing": list(facts.differing),
        "command": shell_command(words),
    }  # fmt: skip


def _arguments(
    asked: AskedCase, scenario: Scenario, imported: RepairCase | None, files: CaseFiles | None
) -> CaseArguments:
    """Return the arguments that name the case, its server and the limits on another command line. An imported
    conversation is spelled as a line, or has one of the ``files``."""
    from cachesim.scenarios.corpus import is_file
    from cachesim.scenarios.engine_cases import settings_of
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.tools.advise.setup_changes import CaseArguments

    raised = {limit.name for limit in OF_A_RUN}
    limits = tuple((name, amount) for name, amount in dict(asked.limits).items() if name in raised)
    if imported is not None:
        return CaseArguments(limits=limits, files=files)
    model = scenario.model if asked.options.model or asked.sizes else ""
    engines = [name.partition("@")[0] for name in asked.options.profiles] or [scenario.engine]
    own = settings_of(scenario.engine, asked.options.settings, engines)
    server = parse_settings(own, scenario.engine) if is_file(asked.text) else dict(scenario.server)
    return CaseArguments(asked.text, model, server, limits, files)


def sized(asked: AskedCase, imported: RepairCase | None = None) -> SizedCases:
    """Return the case under each engine, and the sizes of the real model that ``--sizes`` names, else ``--model``; for
    a line also its layers. Without both, the sizes are units of the tiny models; so they are if an engine runs a tiny
    model in place of the real one. Raise BadInput for an unknown model."""
    from cachesim.engines.registry import BUILTIN, ENGINES
    from cachesim.engines.shared.known_models import find
    from cachesim.engines.shared.model_sizes import known_sizes, sizes_of
    from cachesim.scenarios.corpus import is_file
    from cachesim.tools.advise.memory_meter import UNITS, real_sizes, with_real_sizes

    model = asked.options.model
    tiny = any(model in engine.manual.models for engine in BUILTIN.values())
    named = asked.sizes or (model if not tiny and find(model or "") in known_sizes() else "")
    if not named:
        return SizedCases(asked, _cases(asked, imported), UNITS)
    real = sizes_of(named)
    if not model and not is_file(asked.text):
        asked = asked._replace(options=asked.options._replace(model=real.layers))
    cases = _cases(asked, imported)
    if not asked.sizes and any(case.model in ENGINES[case.engine].manual.models for case in cases):
        return SizedCases(asked, cases, UNITS)       # an engine runs a tiny model in place of the real one
    return SizedCases(asked, [with_real_sizes(scenario, real) for scenario in cases], real_sizes(real))


def _cases(asked: AskedCase, imported: RepairCase | None) -> list[Scenario]:
    """Return the case under each engine of the requested rule sets. A log belongs to its engine. Raise BadInput."""
    from cachesim.scenarios.engine_cases import settings_of, under_engines

    if imported is None:
        return read_under_engines(asked.text, asked.options)
    if imported.facts is not None:
        return [imported.scenario]
    cases = under_engines(imported.scenario, asked.options.profiles, known_profiles())
    engines = [case.engine for case in cases]
    settings = asked.options.settings
    return [
        case if case is imported.scenario else with_settings(case, settings_of(case.engine, settings, engines))
        for case in cases
    ]


def advice_for(
    search: AdviceSearch, about: RepairCase, sizes: Sizes, most: int = SECONDS, asked: CaseArguments | None = None
) -> CaseAdvice:
    """Return the advice that a search finds. ``about``: the case and what is known about it. ``most``: time limit in
    seconds. ``asked``: arguments that name the case, None = its line or its file."""
    from cachesim.tools.advise.proposals import proposed_data
    from cachesim.tools.advise.ranking import choose
    from cachesim.tools.advise.search import advice_data
    from cachesim.tools.advise.setup_changes import arguments_of

    named = asked or arguments_of(about.scenario)
    until = time.monotonic() + most
    stopped = None
    ended = None
    is_refuted = about.facts is not None and about.facts.is_refuted
    try:
        for _ in () if is_refuted else progress(search, len(search), "trying changes"):
            if time.monotonic() > until:
                stopped = "seconds"
                break
    except KeyboardInterrupt as error:
        stopped, ended = "interrupted", error
    with LateBar("examining the best changes"):
        advice = choose(search.base, search.found, sizes, named, about.facts)
    drawn = [(one.tried.case.scenario, one.tried.case.profile) for one in (advice.base, *advice.released[:1])]
    data = advice_data(search, advice, sizes, named, about.has_texts)
    proposed = proposed_data(search, advice, about.proposed, about.facts, named)
    return CaseAdvice({**data, "proposed": proposed, "stopped": stopped}, drawn, ended)


def newest_with_losses(scenario: Scenario, own: tuple[str, ...]) -> Trial:
    """Return the unchanged case under the newest profile of the scenario under which tokens are re-evaluated or answers
    are wrong, preferably of the main branch; without such a profile under the newest. Raise BadInput if the scenario
    cannot run."""
    from cachesim.engines.registry import engine_of
    from cachesim.tools.advise.setup_changes import loses

    line = list(engine_of(own[0]).line)
    newest = sorted((name for name in own if name in line), key=line.index, reverse=True) or list(own)
    first = _unchanged(scenario, newest[0])
    if loses(first) or len(own) == 1:
        return first
    others = (_unchanged(scenario, name) for name in newest[1:])
    return next((trial for trial in others if loses(trial)), first)


def _unchanged(scenario: Scenario, profile: str) -> Trial:
    """Return the outcome of a scenario under a rule set. Raise BadInput if it cannot run."""
    from cachesim.tools.advise.setup_changes import Setup, run_trial

    with LateBar("running the unchanged case"):
        return run_trial(Setup(scenario, profile))
