"""What do the commands share? Arguments they have in common, and the way from arguments to scenarios."""

from __future__ import annotations

import os.path
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, AbstractSet, Sequence

from cachesim.base import limits
from cachesim.base.console import note
from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import Limit

if TYPE_CHECKING:
    from cachesim.base.shard import Shard
    from cachesim.scenarios.schema import Scenario


def add_json(parser: ArgumentParser) -> None:
    """The option that every command has."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_profiles(
    parser: ArgumentParser, text: str = "rule set to run under, or a Python file of rules; may be repeated"
) -> None:
    """``-p``, which may be repeated; ``args.profiles`` is empty where it is left out."""
    parser.add_argument("-p", "--profile", dest="profiles", metavar="PROFILE", action="append", default=[],
                        type=profile_name, help=text)  # fmt: skip


def add_settings(parser: ArgumentParser, text: str = "") -> None:
    """``--set``, which may be repeated; ``args.settings``. A command that has it takes the server's own flags too."""
    parser.add_argument("--set", dest="settings", metavar="KEY=VALUE", action="append", default=[],
                        help=f"{text}server flag, may be repeated; the server's own spelling (-np 2) is taken as it "
                        "is. All flags: cachesim options ENGINE")  # fmt: skip


def add_limits(parser: ArgumentParser, *more: Limit) -> None:
    """The flags that lift limits: those of a run, and those of ``more``."""
    for limit in (*limits.OF_A_RUN, *more):
        parser.add_argument(limit.flag, dest=f"limit {limit.name}", metavar="N", type=count,
                            help=f"{limit.subject} [{limit.unit}], default {limit.value}")  # fmt: skip


def lift_limits(args: Namespace) -> None:
    """From now on the limits hold that the command line asks for."""
    asked = {name.removeprefix("limit "): value for name, value in vars(args).items() if name.startswith("limit ")}
    limits.lift({name: value for name, value in asked.items() if value is not None})


def profile_name(text: str) -> str:
    """An argument that names a profile: ``<engine>@latest`` becomes the newest recorded one, an old name the present
    one, a build, a date, a commit or a version the rule set in force then, with a line on stderr. Whether the profile
    exists is asked later. A file of rules is run, and becomes the name of its profile; raises BadInput."""
    from cachesim.base.console import note
    from cachesim.engines.build_names import resolve_name
    from cachesim.engines.registry import latest, renamed
    from cachesim.engines.rule_files import is_rule_file, profile_of

    if is_rule_file(text):
        return profile_of(text)
    if text in renamed():
        note(f"{text} is {renamed()[text]} now")
    if text in latest() or text in renamed():
        return renamed().get(text) or latest()[text]
    found = resolve_name(text)
    if found is None:
        return text
    note(found.note)
    return found.profile


def count(text: str) -> int:
    """An argument that is an integer of at least 0."""
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ArgumentTypeError(f"{quoted(text)} is not an integer from 0 to {10**9 - 1}")
    return int(text)


def add_jobs(parser: ArgumentParser) -> None:
    """``-j``; ``args.jobs`` is at least 1."""
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, default=1,
                        help="processes to use, `auto` for one on each core (default 1)")  # fmt: skip


def jobs(text: str) -> int:
    """An argument that is a number of processes."""
    from cachesim.base.pool import cores

    found = cores() if text == "auto" else count(text)
    if not found:
        raise ArgumentTypeError("must be at least 1")
    return found


def add_elsewhere(parser: ArgumentParser, of: str) -> None:
    """``--on`` and ``--shard``: work that is done on other machines. ``of``: what there are parts of."""
    parser.add_argument("--on", metavar="dask://HOST:PORT", help="play on the workers of this dask scheduler, which "
                        "must be trusted (extra `cluster`)")  # fmt: skip
    parser.add_argument("--shard", metavar="I/N", type=shard, help=f"play only part I of N of the {of}; "
                        "cachesim merge puts the parts together")  # fmt: skip


def shard(text: str) -> Shard:
    """An argument that is a part of the work: the number of the part, from 1, and of how many."""
    from cachesim.base.shard import MOST, Shard

    number, slash, of = text.partition("/")
    if not slash or not all(one.isascii() and one.isdigit() and len(one) < 8 for one in (number, of)):
        raise ArgumentTypeError(f"{quoted(text)} is not I/N, part I of N")
    if not 1 <= int(number) <= int(of) <= MOST:
        raise ArgumentTypeError(f"{quoted(text)}: there are parts 1 to N, and {MOST:,} at most")
    return Shard(int(number), int(of))


def minutes(text: str) -> float:
    """An argument that is a time."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) or not float(text):
        raise ArgumentTypeError(f"{quoted(text)} is not a number of minutes above 0")
    return float(text)


def known_profiles() -> AbstractSet[str]:
    """Names of all profiles of all engines; whether one is among them is known without importing the other engines."""
    from cachesim.engines.registry import profiles

    return profiles().keys()


def load_files(files: list[str]) -> tuple[list[Scenario], list[BadInput]]:
    """The scenarios in these files and folders, or with these ids, and what is wrong with those that are none; both are
    empty if a folder has none."""
    from cachesim.scenarios.corpus import named
    from cachesim.scenarios.load import inside, load_each

    found: dict[str, Path] = {}
    bad: list[BadInput] = []
    for name in files:
        try:
            for file in inside(named(name)):
                found.setdefault(os.path.realpath(file), file)
        except BadInput as error:
            bad.append(error)
    each = list(load_each(found.values(), known_profiles()))
    bad += [one for one in each if isinstance(one, BadInput)]
    return [_hinted(one) for one in each if not isinstance(one, BadInput)], bad


def load_one(file: str) -> Scenario:
    """The scenario in one file, or with this id. Raises BadInput."""
    from cachesim.scenarios.corpus import named
    from cachesim.scenarios.load import load

    return _hinted(load(named(file), known_profiles()))


def _hinted(scenario: Scenario) -> Scenario:
    """The same scenario; a line on stderr for each old name of a profile in its file, and for a real model's name."""
    from cachesim.base.console import note

    if scenario.model_note:
        note(scenario.model_note)
    for old, new in scenario.old_names.items():
        note(f"{scenario.file}: {old} is {new} now")
    return scenario


def with_settings(scenario: Scenario, settings: list[str]) -> Scenario:
    """The same scenario with these ``key=value`` options of its server instead of its own, and without expectations,
    which hold for its own. Raises BadInput."""
    from dataclasses import replace

    from cachesim.scenarios.option_checks import parse_settings

    if not settings:
        return scenario
    server = {**scenario.server, **parse_settings(settings, scenario.engine)}
    return replace(scenario, server=server, expect={}, lives=())


def chosen_profiles(scenario: Scenario, asked: list[str]) -> tuple[str, ...]:
    """The profiles asked for, checked; the scenario's own where none are."""
    from cachesim.scenarios.corpus import own_profiles
    from cachesim.scenarios.option_checks import check_profile

    for name in asked:
        check_profile(name, scenario.engine, known_profiles())
    return tuple(dict.fromkeys(asked)) or own_profiles(scenario, known_profiles())


def scenario_of_line(line: str, model: str, asked: list[str], settings: list[str]) -> Scenario:
    """Requests in one line under the profiles asked for, all of one engine, whose options ``key=value`` are. Raises
    BadInput."""
    from cachesim.scenarios.from_notation import from_line
    from cachesim.scenarios.option_checks import check_profile, parse_settings
    from cachesim.scenarios.schema import DEFAULT_PROFILE

    profiles = tuple(dict.fromkeys(asked)) or (DEFAULT_PROFILE,)
    engine = profiles[0].partition("@")[0]
    for name in profiles:
        check_profile(name, engine, known_profiles())
    return _hinted(from_line(line, model=model, profiles=profiles, server=parse_settings(settings, engine)))


# What is FILE|ID|LINE on a command line? One reading for every command that takes one case, and with how much
# arithmetic it is run.

MODEL = "GGGA"
LONG = 2_000           # tokens of all prompts of a case, above which it is run without arithmetic unless told


def add_case(parser: ArgumentParser) -> None:
    """The case (``args.case``), ``--model`` and ``--set``."""
    parser.add_argument("case", metavar="FILE|ID|LINE",
                        help="scenario file or its id, or requests in one line such as S40.A60/B80/S.C50")  # fmt: skip
    add_model(parser)
    add_settings(parser)


def add_model(parser: ArgumentParser) -> None:
    """``--model``, None where it is left out."""
    parser.add_argument("--model", metavar="MODEL",
                        help=f"layers such as GGGA, or a name (default: the file's, {MODEL} for a line)")  # fmt: skip


def case_of(args: Namespace) -> Scenario:
    """The scenario that the arguments of ``add_case`` name. Raises BadInput."""
    return read_case(args.case, args.model, args.profiles, args.settings)


def read_case(what: str, model: str | None, profiles: list[str], settings: list[str]) -> Scenario:
    """The scenario of a file or an id, with another model or other options if those are given; or of requests in one
    line. Raises BadInput."""
    from cachesim.scenarios.corpus import is_file

    if not is_file(what):
        return scenario_of_line(what, model or MODEL, profiles, settings)
    scenario = with_settings(load_one(what), settings)
    return with_model(scenario, model) if model else scenario


def with_model(scenario: Scenario, model: str) -> Scenario:
    """The same scenario with another model, and without expectations, which hold for its own. Raises BadInput."""
    from dataclasses import replace

    from cachesim.scenarios.option_checks import model_named

    named = model_named(model, scenario.engine)
    if named.note:
        note(named.note)
    return replace(scenario, model=named.model, model_note=named.note, expect={}, lives=())


def add_arithmetic(
    parser: ArgumentParser, provenance: str = "follow tokens only, without arithmetic (faster)",
    exact: str = f"compute numbers too, however long (default up to {LONG:,} tokens)",
) -> None:
    """``--provenance`` and ``--exact``, with what help says of them."""
    both = parser.add_mutually_exclusive_group()
    both.add_argument("--provenance", action="store_true", help=provenance)
    both.add_argument("--exact", action="store_true", help=exact)


def modes(args: Namespace, scenarios: Sequence[Scenario]) -> list[str]:
    """How each scenario is run: "provenance" or "exact", as asked, else by the length of its prompts. What is chosen
    because of that is told in a line on stderr."""
    if args.exact or args.provenance:
        return ["exact" if args.exact else "provenance"] * len(scenarios)
    sizes = [sum(len(step.request.prompt) for step in one.steps) for one in scenarios]
    long = [size for size in sizes if size > LONG]
    if long:
        what = f"{max(long):,} tokens of prompts" if len(sizes) == 1 else f"{len(long)} cases have long prompts"
        note(f"{what}, more than {LONG:,}: provenance only, without arithmetic (--exact computes numbers too)")
    return ["provenance" if size > LONG else "exact" for size in sizes]
