"""Command ``cachesim options ENGINE [FLAG]``: list the server flags of an engine and their effects."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Collection

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput
from cachesim.tools.run.arguments import add_json, add_profiles, profile_name


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("engine", metavar="ENGINE", nargs="?", default="",
                        help="engine, or rule set whose defaults are shown (default: the first engine)")  # fmt: skip
    parser.add_argument("flag", metavar="FLAG", nargs="?", default="", help="flag to show, in any spelling")
    add_profiles(parser, "rule set whose defaults are shown")
    add_json(parser)


def prepared(argv: list[str], known: Collection[str]) -> list[str]:
    """Return the command line with server flags such as ``-np`` as plain names, so that argparse accepts them."""
    return [word.lstrip("-") if word.startswith("-") and word not in known else word for word in argv]


def run(args: Namespace) -> int:
    from cachesim.engines.registry import DEFAULT, ENGINES, engine_named, rules_of
    from cachesim.scenarios.option_checks import option_named
    from cachesim.tools.rulebook.options_report import options_data, options_report

    profile = args.profiles[-1] if args.profiles else ""
    args.engine = args.engine or (profile.partition("@")[0] if profile else DEFAULT.name)
    if args.engine not in ENGINES and not profile:
        profile = profile_name(args.engine) if "@" in args.engine else ""
    engine = engine_named(profile.partition("@")[0] if profile else args.engine)
    if args.engine in ENGINES and args.engine != engine.name:
        raise BadInput(f"{profile} is not a rule set of {args.engine}")
    rules = rules_of(profile) if profile else None
    flags = engine.manual.flags
    if args.flag:
        flags = (option_named(args.flag, engine.name)[0],)
    data = options_data(engine, rules, flags)
    if args.json:
        say_json(data if not args.flag else {key: data[key] for key in ("engine", "profile", "flags")})
    else:
        show(options_report(data, whole=not args.flag))
    return exits.HOLDS
