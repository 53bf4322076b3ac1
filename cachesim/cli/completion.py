"""Command ``cachesim completion bash|zsh|fish``: prints a script that completes commands, options, rule sets, models
and ids.

    source <(cachesim completion bash)

shtab writes the script from the parsers of all commands. This module adds the words that follow from the name of an
argument: rule sets, models, engines and ids. All other arguments complete file names.
"""

from __future__ import annotations

import re
from argparse import Action, ArgumentParser, Namespace

from cachesim.base import exits
from cachesim.base.console import say, say_json
from cachesim.base.errors import BadInput
from cachesim.base.escaping import shell_command, shell_word
from cachesim.base.extras import install_command
from cachesim.tools.run.arguments import add_json

PARSERS = True         # main passes its parser and those of all commands as ``args.parsers``

OPTIONS = {"PROFILE": "profiles", "MODEL": "models"}
"""Name of an option's value -> kind of its words, besides files."""
ARGUMENTS = {
    "PROFILE": "profiles", "NAME": "profiles", "ENGINE": "engines",
    "FILE": "ids", "FILE|ID|LINE": "ids", "FILE|LINE": "ids", "FILE|LINE|FOLDER": "ids",
}
"""Name of a positional argument -> kind of its words, besides files."""

FILES = {"bash": "", "zsh": "_files", "fish": "(__fish_complete_path (commandline -ct))"}
"""Shell -> completion of file names. bash uses `complete -o default`, which completes files if no word matches."""

BASH = """
_cachesim() {  # shtab expects whole words; readline breaks them, as at @, and replaces only the part that is in $2
    local line="${COMP_LINE:0:COMP_POINT}" word COMP_CWORD
    local -a COMP_WORDS
    read -a COMP_WORDS <<< "$line"
    case "$line" in *[[:space:]]) COMP_WORDS+=("") ;; esac
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    word="${COMP_WORDS[COMP_CWORD]}"
    _shtab_cachesim
    COMPREPLY=("${COMPREPLY[@]#"${word%"$2"}"}")
}
complete -o default -F _cachesim cachesim"""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", choices=tuple(FILES), help="shell to write for")
    add_json(parser)


def run(args: Namespace) -> int:
    try:
        import shtab
    except ImportError:
        raise BadInput("completion needs the package shtab", hint=install_command("completion")) from None
    parser, commands = args.parsers
    for command in commands.values():
        for action in command._actions:
            _teach(action)
    script = shtab.complete(parser, args.shell, preamble=_functions(args.shell)).rstrip()
    if args.shell == "bash":
        script += BASH
    elif args.shell == "zsh":      # shtab completes only the first file, and its script cannot be sourced
        script = re.sub(r'"\(\*\):+', '"*:', script).replace("== eval ]]", "== (eval|file) ]]")
    if args.json:
        say_json({"shell": args.shell, "script": script})
    else:
        say(script)
    return exits.HOLDS


def _teach(action: Action) -> None:
    """Set the completion of an argument in shtab. shtab writes the name unescaped into zsh, where a colon ends it."""
    name = str(action.metavar)
    kind = (OPTIONS if action.option_strings else ARGUMENTS).get(name)
    if "|" in name and name.islower():
        action.choices = name.split("|")
    elif not action.choices and action.nargs != 0:
        function = f"_cachesim_{kind}"
        action.complete = (  # type: ignore[attr-defined]
            {"bash": function, "zsh": function, "fish": f"({function})"} if kind else FILES
        )
        action.metavar = name.replace(":", r"\:")


def _functions(shell: str) -> str:
    """Return a shell function for each kind of word, which completes these words and files."""
    form = {
        "bash": '_cachesim_{kind}() {{ compgen -W {quoted} -- "$1"; }}',
        "zsh": '_cachesim_{kind}() {{ compadd "$@" -- {words}; _files "$@"; }}',
        "fish": "function _cachesim_{kind}; printf '%s\\n' {words}; __fish_complete_path (commandline -ct); end",
    }[shell]
    found = {kind: shell_command(words) for kind, words in _words().items()}
    return "\n".join(form.format(kind=kind, words=words, quoted=shell_word(words)) for kind, words in found.items())


def _words() -> dict[str, list[str]]:
    """Return the words of every kind."""
    from cachesim.engines.registry import ENGINES, latest, profiles
    from cachesim.engines.shared.known_models import MODELS
    from cachesim.scenarios.corpus import corpus_root
    from cachesim.scenarios.load import find

    models = [*MODELS, *(name for engine in ENGINES.values() for name in engine.manual.models)]
    return {
        "profiles": sorted({*profiles(), *latest()}), "models": list(dict.fromkeys(models)), "engines": list(ENGINES),
        "ids": sorted(file.stem for file in find([corpus_root()])),
    }
