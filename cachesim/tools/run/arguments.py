"""Arguments that several commands share, and loading the scenarios that they name."""

from __future__ import annotations

import os
import re
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, AbstractSet, Iterable, NamedTuple, Sequence

from cachesim.base.console import complain, note
from cachesim.base.errors import BadInput, NothingFound, counted, first_of, quoted

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario


def add_json(parser: ArgumentParser) -> None:
    """Add ``--json``, which every command has."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_log(parser: ArgumentParser) -> None:
    """Add ``--log``, which compares the lines of the log, too."""
    parser.add_argument("--log", action="store_true", help="compare the lines of the log, too")


def add_profiles(
    parser: ArgumentParser, text: str = "rule set, engine (its newest) or Python file of rules; may be repeated"
) -> None:
    """Add ``-p``, which may be repeated. ``args.profiles`` is empty without it."""
    parser.add_argument("-p", "--profile", dest="profiles", metavar="PROFILE", action="append", default=[],
                        type=profile_name, help=text)  # fmt: skip


def add_settings(parser: ArgumentParser, text: str = "") -> None:
    """Add ``--set``, which may be repeated (``args.settings``). Such a command also accepts the server's own flags."""
    parser.add_argument("--set", dest="settings", metavar="KEY=VALUE", action="append", default=[],
                        help=f"{text}server flag, may be repeated; the server's own spelling (-np 2) works too. "
                        "All flags: cachesim options ENGINE")  # fmt: skip


def add_server(parser: ArgumentParser) -> None:
    """Add ``--server``, a pasted command line (``args.pasted``), for a command with ``--set``."""
    parser.add_argument("--server", dest="pasted", metavar="COMMAND", default="",
                        help="command line that starts the server, in quotes, or the value of command: in a compose "
                        "file; -p, --model and --set take precedence")  # fmt: skip


def profile_name(text: str) -> str:
    """Resolve an argument to a profile name.

    An engine, and ``<engine>@latest``, become the newest recorded profile. A build, date, commit or version becomes the
    rule set in force then, with a note on stderr. A file of rules is executed and becomes the name of its profile;
    raises BadInput. Whether a profile exists is checked later.
    """
    if not text:                # the default of an option; a look-up would import every engine
        return text
    from cachesim.base.console import note
    from cachesim.engines.build_names import resolve_name
    from cachesim.engines.registry import present_name
    from cachesim.engines.rule_files import is_rule_file, profile_of

    if is_rule_file(text):
        return profile_of(text)
    if (name := present_name(text)) != text:
        return name
    found = resolve_name(text)
    if found is None:
        return text
    for line in (found.note, *found.unknown):
        note(line)
    return found.profile


def known_profiles() -> AbstractSet[str]:
    """Return the names of all profiles of all engines. A membership test imports only the engine in question."""
    from cachesim.engines.registry import profiles

    return profiles().keys()


def load_files(files: list[str]) -> tuple[list[Scenario], list[BadInput]]:
    """Return the scenarios of files, folders and ids, and the errors of those that cannot be loaded. Both lists are
    empty for a folder without scenarios."""
    from cachesim.scenarios.load import inside, load_each

    found: dict[str, Path] = {}
    bad: list[BadInput] = []
    for name in files:
        try:
            for file in inside(_path(name)):
                found.setdefault(os.path.realpath(file), file)
        except BadInput as error:
            bad.append(error)
    results = list(load_each(found.values(), known_profiles()))
    bad += [result for result in results if isinstance(result, BadInput)]
    return [_noted(result) for result in results if not isinstance(result, BadInput)], bad


def complain_of(bad: Sequence[BadInput], *, nothing_left: bool, what: str) -> None:
    """Print the errors of scenarios that are left out. If nothing is left, raise the last of them, or NothingFound with
    the text ``what``."""
    errors = bad or [NothingFound(what)]
    for error in errors[:-1] if nothing_left else bad:
        complain(str(error))
    if nothing_left:
        raise errors[-1]


def load_one(file: str) -> Scenario:
    """Return the scenario of a file or an id. Raise BadInput."""
    from cachesim.scenarios.load import load

    return _noted(load(_path(file), known_profiles()))


def _path(text: str) -> Path:
    """Return the path of a file, folder or scenario id. Raise BadInput for an unknown id."""
    from cachesim.scenarios.corpus import named

    return named(text)


def _noted(scenario: Scenario) -> Scenario:
    """Print the notes on a scenario on stderr; return the scenario."""
    _print_notes([scenario])
    return scenario


def _print_notes(scenarios: Sequence[Scenario]) -> None:
    """Print a note on stderr for a real model's name, and for marks that the engines do not read; each note once."""
    from cachesim.engines.registry import engine_named

    for text in dict.fromkeys(scenario.model_note for scenario in scenarios):
        if text:
            note(text)
    engines_of: dict[str, list[str]] = {}
    for scenario in scenarios:
        manual = engine_named(scenario.engine).manual
        unread = dict.fromkeys(name for step in scenario.steps for name in manual.unread_marks(step.request))
        if unread:
            engines_of.setdefault(", ".join(unread), []).append(scenario.engine)
    for marks, engines in engines_of.items():
        names = " and ".join(filter(None, [", ".join(engines[:-1]), engines[-1]]))
        note(f"ignored: {marks}, which {names} {'does' if len(engines) == 1 else 'do'} not read")


def with_settings(scenario: Scenario, settings: Sequence[str]) -> Scenario:
    """Return a copy of the scenario with these ``key=value`` server options. Without settings, return the scenario
    itself; else drops its expectations, because they hold for its own options. Raise BadInput."""
    from dataclasses import replace

    from cachesim.scenarios.option_checks import parse_settings

    if not settings:
        return scenario
    server = {**scenario.server, **parse_settings(settings, scenario.engine)}
    return replace(scenario, server=server, expect={}, lives=())


def chosen_profiles(scenario: Scenario, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the requested profiles, by default the scenario's own. Raise BadInput for an unknown profile."""
    from cachesim.scenarios.corpus import own_profiles
    from cachesim.scenarios.option_checks import check_profile

    _refuse_several_engines([scenario.engine, *(name.partition("@")[0] for name in requested)])
    for name in requested:
        check_profile(name, scenario.engine, known_profiles())
    return tuple(dict.fromkeys(requested)) or own_profiles(scenario, known_profiles())


def profiles_of(scenario: Scenario, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the requested rule sets of the scenario's engine, by default its own. Raise BadInput."""
    from cachesim.scenarios.engine_cases import profiles_by_engine

    return chosen_profiles(scenario, profiles_by_engine(requested).get(scenario.engine, []))


def _refuse_several_engines(engines: Sequence[str]) -> None:
    """Raise BadInput for rule sets of several engines, which only ``run`` takes. Unknown names are reported later."""
    from cachesim.engines.registry import ENGINES

    known = list(dict.fromkeys(name for name in engines if name in ENGINES))
    if len(known) > 1:
        raise BadInput(f"rule sets of several engines: {', '.join(known)}", hint="cachesim run compares engines")


class CaseOptions(NamedTuple):
    """What a command line says about the server of a case, whose file or line has the requests."""

    model: str | None = None                # of --model, None = not given
    profiles: Sequence[str] = ()            # rule sets of -p
    settings: Sequence[str] = ()            # server options key=value of --set


def scenario_of_line(line: str, options: CaseOptions) -> Scenario:
    """Return the scenario of a line in notation. The rule sets must belong to one engine. Raise BadInput."""
    return _noted(_case_of_line(line, options))


def _case_of_line(line: str, options: CaseOptions) -> Scenario:
    """Return the scenario of a line, without the notes on it. Raise BadInput."""
    from cachesim.scenarios.from_notation import from_line
    from cachesim.scenarios.option_checks import check_profile, parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE

    files = _files_called(line)
    _refuse_single_word(line, files)
    if files:
        note(f"{quoted(line)} is read as requests, not as a file: did you mean {first_of(files)}?")
    profiles = tuple(dict.fromkeys(options.profiles)) or (DEFAULT_PROFILE,)
    engine = profiles[0].partition("@")[0]
    _refuse_several_engines([name.partition("@")[0] for name in profiles])
    for name in profiles:
        check_profile(name, engine, known_profiles())
    server = parse_settings(options.settings, engine)
    return from_line(line, model=options.model or MODEL, profiles=profiles, server=server, files=True)


def _refuse_single_word(line: str, files: Sequence[str]) -> None:
    """Raise BadInput for a single word that rather is the name of a file: it has several letters, or there are
    ``files`` of this name with an ending."""
    word = re.fullmatch(r"([A-Za-z_]+)(\d+)", line)
    if word is None or (len(word[1]) == 1 and not files):
        return
    meant = f"did you mean {first_of(files)}? " if files else ""
    would = f"a word {quoted(word[1])} of {counted(int(word[2][:9]), 'token')} would be run: add >ANSWER or /REQUEST"
    raise BadInput(f"no such file: {quoted(line)}", hint=f"{meant}{would}")


def _files_called(line: str) -> list[str]:
    """Return the files with this name and an ending, for a line that is also the path of a file without its ending."""
    folder, name = os.path.split(line)
    if not re.fullmatch(r"[\w.-]+", name):
        return []
    with suppress(OSError, ValueError), os.scandir(folder or os.curdir) as entries:
        found = sorted(entry.name for entry in entries if entry.name.startswith(f"{name}."))
        return [os.path.join(folder, one) for one in found]
    return []


# --- The argument FILE|ID|LINE, shared by all commands for a single scenario ---------------------------------

MODEL = "GGGA"
CASE = ("scenario file or id, or requests in notation such as 'S40.|U60>a80/S.|U.a[30:].|V9': / separates requests, . "
        "words (with their length in tokens at the first use), | precedes a user message, > the answer, [30:] is a "
        "slice")  # fmt: skip
LONG = 2_000           # prompts and answers [tokens] above which a scenario runs in provenance mode by default
LONG_FILE = 7_000      # the same of a scenario from a file, for `run`: its exact arithmetic fits the limit of a run


def add_case(parser: ArgumentParser) -> None:
    """Add the scenario argument (``args.case``), ``--model`` and ``--set``."""
    parser.add_argument("case", metavar="FILE|ID|LINE", help=CASE)
    add_model(parser)
    add_settings(parser)
    add_server(parser)


def add_model(parser: ArgumentParser) -> None:
    """Add ``--model``, ``-m`` for short, as a server calls it; ``args.model`` is None without it."""
    parser.add_argument("--model", "-m", metavar="MODEL",
                        help=f"layers such as GGGA, or a name (default: the file's, {MODEL} for a line)")  # fmt: skip


def case_arguments(options: CaseOptions, limits: Iterable[tuple[str, int]]) -> list[str]:
    """Return the words of ``-p``, ``--model``, ``--set`` and ``--limit`` on a command line that repeats a run.
    ``limits``: names and amounts; the last of a name holds."""
    from cachesim.engines.rule_files import profile_argument
    from cachesim.judging.reproduce_command import set_words
    from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of
    from cachesim.scenarios.option_checks import parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE

    engines = list(profiles_by_engine(options.profiles or [DEFAULT_PROFILE]))
    server = {}
    for engine in engines:
        server.update(parse_settings(settings_of(engine, options.settings, engines), engine))
    profiles = [word for profile in options.profiles for word in ("-p", profile_argument(profile))]
    model = ["--model", options.model] if options.model else []
    limit_words = [word for name, amount in dict(limits).items() for word in ("--limit", f"{name}={amount}")]
    return [*profiles, *model, *set_words(server), *limit_words]


def case_options(args: Namespace) -> CaseOptions:
    """Return the options of ``add_model``, ``add_profiles`` and ``add_settings``."""
    return CaseOptions(model=args.model, profiles=args.profiles, settings=args.settings)


def read_case(text: str, options: CaseOptions) -> Scenario:
    """Return the scenario of a file, an id or a line, with these options. Raise BadInput."""
    from cachesim.scenarios.corpus import is_file

    if not is_file(text):
        return scenario_of_line(text, options)
    return _changed(load_one(text), options.model, options.settings)


def read_under_engines(text: str, options: CaseOptions) -> list[Scenario]:
    """Return the scenario of a file, an id or a line, once for each engine of the rule sets. Raise BadInput."""
    from cachesim.scenarios.corpus import is_file

    if not is_file(text):
        return cases_of_line(text, options)
    return cases_of_scenario(load_one(text), options)


def read_cases(texts: Sequence[str], options: CaseOptions) -> tuple[list[Scenario], list[BadInput]]:
    """Like ``read_under_engines`` for several arguments, which may be folders, too. Return the scenarios, those of
    lines last, and the errors of the others."""
    from cachesim.scenarios.corpus import is_file

    found: list[Scenario] = []
    loaded, bad = load_files([text for text in texts if is_file(text)])
    for scenario in loaded:
        try:
            found += cases_of_scenario(scenario, options)
        except BadInput as wrong:
            bad.append(wrong)
    for text in texts:
        try:
            found += [] if is_file(text) else cases_of_line(text, options)
        except BadInput as wrong:
            bad.append(wrong)
    return found, bad


def cases_of_scenario(scenario: Scenario, options: CaseOptions) -> list[Scenario]:
    """Return a scenario of a file once for each engine of the rule sets. Raise BadInput."""
    from cachesim.scenarios.engine_cases import settings_of, under_engines

    try:
        cases = under_engines(scenario, options.profiles, known_profiles())
        engines = [case.engine for case in cases]
        return [
            _changed(case, options.model, settings_of(case.engine, options.settings, engines)) for case in cases
        ]
    except BadInput as wrong:
        raise wrong.at(scenario.file) from None


def cases_of_line(line: str, options: CaseOptions) -> list[Scenario]:
    """Return the scenario of a line once for each engine of the rule sets. Raise BadInput."""
    from cachesim.scenarios.engine_cases import profiles_by_engine, settings_of
    from cachesim.scenarios.schema import DEFAULT_PROFILE

    named = profiles_by_engine(options.profiles or [DEFAULT_PROFILE])
    cases = [
        _case_of_line(line, CaseOptions(options.model, names, settings_of(engine, options.settings, list(named))))
        for engine, names in named.items()
    ]
    _print_notes(cases)
    return cases


def _changed(scenario: Scenario, model: str | None, settings: Sequence[str]) -> Scenario:
    """Return a scenario with this model (None = its own) and these options. Raise BadInput."""
    return with_settings(with_model(scenario, model) if model else scenario, settings)


def with_model(scenario: Scenario, model: str) -> Scenario:
    """Return a copy of the scenario with another model. Drops its expectations, because they hold for its own model.
    Raise BadInput."""
    from dataclasses import replace

    from cachesim.scenarios.option_checks import manual_of, model_named

    named = model_named(model, scenario.engine, files=True)
    if named.note:
        note(named.note)
    sizes = manual_of(scenario.engine).sizes
    others = {name: value for name, value in scenario.server.items() if sizes is None or name != sizes.name}
    return replace(scenario, model=named.model, model_note=named.note, server={**others, **named.options}, expect={},
                   lives=())  # fmt: skip


def add_arithmetic(
    parser: ArgumentParser, provenance: str = "tracking of tokens only, without arithmetic (faster)",
    exact: str = f"exact arithmetic for any length (default up to {LONG:,} tokens of prompts and answers)",
) -> None:
    """Add ``--provenance`` and ``--exact`` with these help texts."""
    both = parser.add_mutually_exclusive_group()
    both.add_argument("--provenance", action="store_true", help=provenance)
    both.add_argument("--exact", action="store_true", help=exact)


def requested_mode(*, exact: bool, provenance: bool) -> str:
    """Return the mode that the options of ``add_arithmetic`` request: "exact" or "provenance", "" = neither."""
    if exact:
        return "exact"
    return "provenance" if provenance else ""


def modes(scenarios: Sequence[Scenario], requested: str, long_file: int = LONG) -> list[str]:
    """Return the mode of each scenario, "provenance" or "exact": as requested ("" = not), else "provenance" if its
    prompts and answers exceed ``LONG`` tokens in all, ``long_file`` tokens for a scenario from a file. Prints a note on
    stderr if they are too long for "exact"."""
    if requested:
        return [requested] * len(scenarios)
    sizes = [sum(len(step.request.prompt) + max(0, step.request.n_predict) for step in scenario.steps)
             for scenario in scenarios]  # fmt: skip
    most = [long_file if scenario.file else LONG for scenario in scenarios]
    long = [pair for pair in zip(sizes, most, strict=True) if pair[0] > pair[1]]
    if long:
        each = f"{counted(len(long), 'scenario is', 'scenarios are')} long"
        what = f"{max(long)[0]:,} tokens" if len(sizes) == 1 else each
        limit = f"{min(pair[1] for pair in long):,}"
        note(f"{what}, more than {limit}: provenance without arithmetic (--exact enables arithmetic)")
    return ["provenance" if size > limit else "exact" for size, limit in zip(sizes, most, strict=True)]
