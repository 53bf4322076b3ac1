"""``cachesim advise --for agents``: the server settings for several clients in a given memory."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import NamedTuple, Sequence

from cachesim.base import exits
from cachesim.base.console import say_json, show
from cachesim.base.errors import BadInput, unfinished
from cachesim.base.untrusted_files import file_size
from cachesim.tools.picture.plot_file import plot_file
from cachesim.tools.run.arguments import case_options
from cachesim.tools.run.work_arguments import count, jobs, memory_size, tokens

SCHEMA = 2             # version of the JSON form of `advise --for agents`
GIB, MOST_CLIENTS = 1 << 30, 64
NEEDED = {"memory": "--memory 32GiB", "model": "--model NAME"}
OTHERS = {"sizes": "", "seconds": 60, "settings": [], "svg": "", "html": "", "trace": ""}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of ``--for agents``."""
    parser.add_argument("--for", dest="purpose", choices=("agents",), help="settings of a server for agents (needs "
                        "--model and --memory)")  # fmt: skip
    parser.add_argument("--memory", metavar="SIZE", type=memory_size,
                        help="memory for weights and caches, such as 32GiB")  # fmt: skip
    parser.add_argument("--weights", metavar="SIZE", type=memory_size, help="memory of weights and compute "
                        "buffers (default: size of the GGUF; else not counted)")  # fmt: skip
    parser.add_argument("--clients", metavar="N", type=_clients, default=1,
                        help="agents that send requests at the same time (default 1)")  # fmt: skip
    parser.add_argument("--tokens", metavar="N", type=tokens, default=0,
                        help="longest request [tokens]; sessions with longer ones are left out (default: the model's "
                        "context)")  # fmt: skip
    parser.add_argument("-j", "--jobs", metavar="N", type=jobs, help="--for agents: number of processes for the "
                        "unscaled run, `auto` = number of cores (default `auto` for long sessions)")  # fmt: skip


def _clients(text: str) -> int:
    found = count(text)
    if not 1 <= found <= MOST_CLIENTS:
        raise ArgumentTypeError(f"must be 1 to {MOST_CLIENTS}")
    return found


class AgentOptions(NamedTuple):
    """The options that only ``--for agents`` has, with their defaults."""

    memory: int | None = None       # for weights and caches [bytes]
    clients: int = 1                # agents that send requests at the same time
    weights: int | None = None      # memory of weights and compute buffers [bytes], None = size of the GGUF
    tokens: int = 0                 # longest request [tokens], 0 = the model's context
    jobs: int | None = None         # processes for the unscaled run, None = by its length


def check_unused(options: AgentOptions) -> None:
    """Raise BadInput for an option that differs from its default, without ``--for agents``."""
    defaults = AgentOptions()._asdict()
    for name, value in options._asdict().items():
        if value != defaults[name]:
            raise BadInput(f"--{name} needs --for agents")


def run(args: Namespace) -> int:
    """Print the advice. Return the exit code."""
    from cachesim.engines.shared.model_sizes import real_model
    from cachesim.tools.advise.agent_report import NotedSearch, agents_data, agents_report
    from cachesim.tools.advise.agent_search import AgentSearch
    from cachesim.tools.advise.agent_workload import agent_workload

    for option, example in NEEDED.items():
        if not getattr(args, option):
            raise BadInput(f"--for agents needs --{option}", hint=f"such as {example}")
    for option, default in OTHERS.items():
        if getattr(args, option) != default:
            raise BadInput(f"--{option.replace('settings', 'set')} cannot be combined with --for agents")
    file = plot_file(args)
    profile = _profile(args.profiles, args.model)
    model = real_model(args.model)
    weights = args.weights or _file_size(args.model)
    if (room := args.memory - (weights or 0)) <= 0:
        raise BadInput(f"the weights take all of the memory ({(weights or 0) / GIB:,.1f} GiB)", hint="larger --memory")
    options = case_options(args)
    workload = agent_workload(
        args.cases, args.clients, args.tokens or model.context, lambda case: args.imported(case, options)
    )
    search = AgentSearch(profile, args.model, room, args.clients, workload, jobs=args.jobs)
    if not args.json:
        search.listener = NotedSearch(search, args.model)
    with unfinished("the search for settings was not finished"):
        advice = search.advice()
        data = agents_data(search, advice, args.model, args.memory, weights)
    if args.json:
        say_json({"schema": SCHEMA, "agents": data})
    else:
        show(*agents_report(data))
    if file:
        from rich.console import Group

        from cachesim.tools.advise.agent_plot import agent_plot
        from cachesim.tools.picture.plot_file import write_plots

        write_plots(file, [agent_plot(search, advice, data)], Group(*agents_report(data)))
    return exits.HOLDS if data["best"] else exits.BROKEN


def _profile(profiles: Sequence[str], model: str) -> str:
    """Return the rule set; the newest of the default engine without ``-p``. Raise BadInput for several rule sets, and
    for an engine that does not have the model."""
    from cachesim.engines.registry import DEFAULT
    from cachesim.scenarios.option_checks import check_has, check_profile
    from cachesim.tools.run.arguments import known_profiles

    if len(profiles) > 1:
        raise BadInput("--for agents takes one rule set")
    name = profiles[0] if profiles else DEFAULT.newest
    check_profile(name, name.partition("@")[0], known_profiles())
    check_has(model, name.partition("@")[0])
    return name


def _file_size(word: str) -> int | None:
    """Return the bytes of a GGUF, None for a model of unknown size."""
    return file_size(word) if word.endswith(".gguf") else None
