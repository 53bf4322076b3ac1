"""``cachesim memory MODEL [flags]``: memory of a server's caches, what fits, and which flag to lower first."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Collection, Iterator, Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, quoted
from cachesim.base.limits import JSON_VALUES, TRACE_BYTES, WORKLOAD_TOKENS
from cachesim.tools.picture.plot_file import add_plot, plot_file
from cachesim.tools.run.arguments import add_json, add_profiles, add_server, add_settings, known_profiles
from cachesim.tools.run.work_arguments import add_jobs, add_limits, memory_size, tokens

if TYPE_CHECKING:
    from cachesim.engines.contract import Engine
    from cachesim.tools.memory.estimate import MemoryEstimate


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
    parser.add_argument("--workload", metavar="FILE", action="append", default=[], help="recorded session or folder, "
                        "may be repeated: what they evaluate on this server, together and fewer at a time")
    parser.add_argument("--scale", metavar="N", type=tokens, default=1,
                        help="tokens of the sessions that are simulated as one (default 1)")  # fmt: skip
    add_jobs(parser)
    add_limits(parser, TRACE_BYTES, JSON_VALUES, WORKLOAD_TOKENS)
    add_json(parser)
    add_plot(parser, "the parts against the memory")


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

    file = plot_file(args)
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
    if args.workload:
        _add_workload(args, found, data)
    if args.json:
        say_json({"memory": data})
    else:
        for one in data:
            show(*memory_report(one))
    if file:
        from rich.console import Group

        from cachesim.tools.memory.memory_plot import memory_plots
        from cachesim.tools.picture.plot_file import write_plots

        write_plots(file, memory_plots(data), Group(*(line for one in data for line in memory_report(one))))
    return exits.HOLDS if all(one["fits"] in (None, True) for one in data) else exits.BROKEN


def _add_workload(args: Namespace, found: Sequence[MemoryEstimate], data: Sequence[dict[str, Any]]) -> None:
    """Add what recorded sessions evaluate to the data of each estimate."""
    from cachesim.tools.memory.report import add_cost
    from cachesim.tools.memory.workload_cost import CostQuestion, workload_cost

    question = CostQuestion(args.workload, args.model, args.memory, args.scale, args.jobs)
    for one, of_one in zip(found, data, strict=True):
        add_cost(of_one, workload_cost(question, one))


def _list_models(as_json: bool) -> int:
    """Print the models whose sizes are known by name."""
    from cachesim.tools.memory.model_list import model_list, models_report

    if as_json:
        say_json({"models": model_list()})
    else:
        show(models_report(model_list()))
    return exits.HOLDS
