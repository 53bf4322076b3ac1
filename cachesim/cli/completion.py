"""``cachesim completion bash|zsh|fish``: a script that completes our commands, options, rule sets, models and ids.

    source <(cachesim completion bash)

It is made from the parsers of all commands, so that it knows what they know.
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from typing import Iterable, Mapping

from cachesim.base import exits
from cachesim.base.console import say, say_json
from cachesim.cli.shells import SHELLS, Command, ShellFlag
from cachesim.tools.run.arguments import add_json

PARSERS = True         # the command line hands over the parsers of all commands as ``args.parsers``

KINDS: Mapping[str, str] = {
    "PROFILE": "profiles", "NAME": "profiles", "MODEL": "models", "ENGINE": "engines", "FILE|ID|LINE": "ids",
    "FILE": "ids", "CASE": "ids", "FILE|LINE": "ids", "FILE|LINE|FOLDER": "ids",
}
"""What an argument of this name may be, beside a file."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", choices=tuple(SHELLS), help="shell to write for")
    add_json(parser)


def run(args: Namespace) -> int:
    commands = {name: _command(parser) for name, parser in args.parsers.items()}
    script = SHELLS[args.shell](commands, _words())
    if args.json:
        say_json({"shell": args.shell, "script": script})
    else:
        say(script)
    return exits.HOLDS


def _command(parser: ArgumentParser) -> Command:
    """What a command takes: options that are not for the command alone to know, and where words stand."""
    flags = [_flag(one) for one in parser._actions if one.option_strings]
    places = [_kind(one) for one in parser._actions if not one.option_strings]
    return Command(parser.description or "", tuple(flags), tuple(place for place in places if place))


def _flag(action: Action) -> ShellFlag:
    value = "" if action.nargs == 0 else _kind(action) or "file"
    return ShellFlag(tuple(action.option_strings), (action.help or "").partition(";")[0], value)


def _kind(action: Action) -> str:
    """The kind of word that an argument is, its choices behind a "=", or "" where nothing is known."""
    if action.choices:
        return "=" + " ".join(str(one) for one in action.choices)
    name = str(action.metavar or "")
    if "|" in name and name == name.lower():
        return "=" + name.replace("|", " ")
    return KINDS.get(name, "")


def _words() -> dict[str, list[str]]:
    """The words of every kind."""
    from cachesim.engines.registry import ENGINES, latest, profiles
    from cachesim.engines.shared.known_models import MODELS
    from cachesim.scenarios.corpus import corpus_root
    from cachesim.scenarios.load import find

    models = [*MODELS, *(name for engine in ENGINES.values() for name in engine.manual.models)]
    return {
        "profiles": sorted({*profiles(), *latest()}), "models": _once(models), "engines": list(ENGINES),
        "ids": sorted(file.stem for file in find([corpus_root()])),
    }


def _once(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
