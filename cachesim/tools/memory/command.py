"""``cachesim memory MODEL [flags]``: memory of a server's caches, what fits, and which flag to lower first."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from itertools import pairwise
from typing import TYPE_CHECKING, Collection, Iterator

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, quoted
from cachesim.tools.run.arguments import add_json, add_profiles, add_server, add_settings, known_profiles
from cachesim.tools.run.work_arguments import memory_size, tokens

if TYPE_CHECKING:
    from cachesim.engines.contract import Engine


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", nargs="?", help="GGUF, config.json or name of a real model "
                        "(default: that of --server)")  # fmt: skip
    parser.add_argument("--model", dest="named", help=SUPPRESS)          # for hints: ``prepared`` has read it
    add_profiles(parser, "rule set or engine (its newest); may be repeated")
    add_settings(parser)
    add_server(parser)
    parser.add_argument("--gib", dest="memory", type=memory_size, default=SUPPRESS, help=SUPPRESS)  # older spelling
    parser.add_argument("--memory", metavar="SIZE", type=memory_size, default=0,
                        help="memory for the caches, such as 32GiB, without weights and compute buffers; exit code 1 "
                        "if they do not fit")  # fmt: skip
    parser.add_argument("--tokens", metavar="N", type=tokens, default=0, help="length of a conversation [tokens] for "
                        "servers without a flag for the context (default: the model's context)")  # fmt: skip
    parser.add_argument("--models", dest="list_models", action="store_true",
                        help="list of the models whose sizes are known by name, with the source of their sizes")
    parser.add_argument("--draft", metavar="MODEL", default="", help="draft model: GGUF, config.json or name")
    add_json(parser)


def prepared(argv: list[str], known: Collection[str]) -> list[str]:
    """Return the command line with flags that change only sizes as ``--set``, a server's draft model as ``--draft``,
    and ``--model MODEL``, the spelling of other commands, as the argument."""
    if {"-h", "--help"} & {*argv}:
        return argv
    forms = [(engine, engine.memory()) for engine in _engines(argv)]
    sizes = {word: flag.name for _, form in forms if form for flag in form.flags for word in flag.spellings}
    drafts = {word for engine, _ in forms for flag in engine.manual.flags if flag.model for word in flag.spellings}
    out, todo = [], argv[::-1]
    while todo:
        word, equals, value = (whole := todo.pop()).partition("=")
        if word == "--model":
            out += [value] if equals else []              # else the model is the next word
            continue
        if word not in sizes and word not in drafts:
            out.append(whole)
            continue
        if not equals and not todo:
            raise BadInput(f"server flag {quoted(word)} has no value")
        value = value if equals else todo.pop()
        out += ["--set", f"{sizes[word]}={value}"] if word in sizes else ["--draft", value]
    return out


def _engines(argv: list[str]) -> Iterator[Engine]:
    """Yield the engines of the rule sets that the command line names, else all engines."""
    from cachesim.engines.registry import ENGINES

    named = [after.partition("@")[0] for word, after in pairwise(argv) if word in ("-p", "--profile")]
    for name in dict.fromkeys(name for name in named if name in ENGINES) or ENGINES:
        yield ENGINES[name]


def run(args: Namespace) -> int:
    from cachesim.engines.registry import DEFAULT
    from cachesim.engines.shared.model_sizes import real_model
    from cachesim.scenarios.option_checks import check_has, check_profile
    from cachesim.tools.memory.estimate import estimate
    from cachesim.tools.memory.report import memory_data, memory_report

    if args.list_models:
        return _list_models(args.json)
    if not args.model:
        raise BadInput("the following arguments are required: MODEL", hint="see cachesim memory --help")
    model = real_model(args.model)
    draft = real_model(args.draft) if args.draft else None
    profiles = dict.fromkeys(args.profiles or [DEFAULT.newest])
    for profile in profiles:
        check_profile(profile, profile.partition("@")[0], known_profiles())
        check_has(args.model, profile.partition("@")[0])
    found = [estimate(profile, model, args.settings, args.memory, args.tokens, draft) for profile in profiles]
    data = [memory_data(args.model, model, one, args.memory) for one in found]
    if args.json:
        say_json({"memory": data})
    else:
        for one in data:
            show(*memory_report(one))
    return exits.HOLDS if all(one["fits"] in (None, True) for one in data) else exits.BROKEN


def _list_models(as_json: bool) -> int:
    """Print the models whose sizes are known by name."""
    from cachesim.tools.memory.model_list import model_list, models_report

    if as_json:
        say_json({"models": model_list()})
    else:
        show(models_report(model_list()))
    return exits.HOLDS
