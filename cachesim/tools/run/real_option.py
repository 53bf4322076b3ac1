"""Option ``--real``: the same conversations on real servers, beside the simulator.

The servers belong to a tool that imports this one, so that the command line gives it to the commands:
``args.real_runs``.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Collection, NamedTuple, Protocol, Sequence

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.judging.verdict_words import exit_code_of

if TYPE_CHECKING:
    from cachesim.scenarios.schema import Scenario

Data = dict[str, Any]


class Served(Protocol):
    """A started server."""

    @property
    def url(self) -> str:
        """The URL on which it answers."""


class ShownRun(NamedTuple):
    """Run whose numbers are printed: the name of its scenario, and for each request the reused and evaluated tokens,
    the HTTP status, and whether the answer equals a cold run's."""

    scenario: str
    numbers: tuple[tuple[Any, ...], ...]


class RealDrawing(Protocol):
    """A search for drawn conversations that differ on a real server."""

    def run(self, number: int, stop: Callable[[], bool]) -> None:
        """Run the drawn conversation of a number on both sides."""

    def data(self) -> Data:
        """Return the results so far as plain data."""


class RealRuns(Protocol):
    """The real servers that ``--real`` names."""

    def require(self) -> None:
        """Find the servers, and install what is missing. Raise BadInput."""

    def compare(self, scenarios: Sequence[Scenario]) -> list[Data]:
        """Return the comparison of each scenario on each server as plain data."""

    def show(self, compared: Sequence[Data], shown: Collection[ShownRun]) -> None:
        """Print comparisons. ``shown``: runs whose numbers stand above."""

    def bisect(self, scenario: Scenario) -> Data:
        """Return the course of a scenario over the real builds as plain data."""

    def show_history(self, data: Data) -> None:
        """Print the course of a scenario over the real builds."""

    def search(self, seed: int, narrowed: tuple[str, ...], shrinks: bool) -> Sequence[RealDrawing]:
        """Return a search for drawn conversations on each server."""

    def show_search(self, found: Sequence[Data]) -> None:
        """Print the results of searches."""

    def serve(self, layers: str, flags: Sequence[str]) -> AbstractContextManager[Served]:
        """Start the server of the first build with a model of these layers."""


class RealOptions(NamedTuple):
    """The options of ``add_real``, and how the command line finds the servers that they name."""

    servers: str                                # builds or paths, separated by commas; "" = without --real
    gguf: Path | None                           # model file, None = a tiny model of the scenario's layers
    may_install: bool                           # install missing builds without asking
    find: Callable[[RealOptions], RealRuns] | None = None       # None = without --real


def add_real(parser: ArgumentParser, text: str = "run the same requests on real llama-servers too: builds such as "
             "b11549, or paths") -> None:  # fmt: skip
    """Add ``--real``, ``--gguf`` and ``--install``."""
    parser.add_argument("--real", metavar="BUILD[,BUILD...]", default="", help=f"{text} (cachesim real list)")
    parser.add_argument("--gguf", metavar="GGUF", type=Path,
                        help="--real: model file (default: a tiny model with the scenario's layers)")  # fmt: skip
    parser.add_argument("--install", action="store_true", help="--real: install missing builds without asking")


def real_options(args: Namespace) -> RealOptions:
    """Return the options of ``add_real``. Their combination is not checked yet."""
    find = args.real_runs if args.real else None
    return RealOptions(servers=args.real, gguf=args.gguf, may_install=args.install, find=find)


def real_runs(options: RealOptions) -> RealRuns | None:
    """Return the real servers, None without ``--real``. Installs them if needed. Raise BadInput."""
    check_real_options(options)
    if options.find is None:
        return None
    found = options.find(options)
    found.require()
    return found


def real_history(options: RealOptions, scenario: Scenario) -> tuple[RealRuns, Data] | None:
    """Return the course of a scenario over the real builds, with their servers; None without ``--real``. Raise
    BadInput."""
    check_real_options(options)
    if options.find is None:
        return None
    found = options.find(options)
    return found, found.bisect(scenario)


def check_real_options(options: RealOptions) -> None:
    """Raise BadInput for an option that only ``--real`` reads, without ``--real``."""
    if options.servers:
        return
    given = [name for name, value in (("--gguf", options.gguf), ("--install", options.may_install)) if value]
    if given:
        raise BadInput(f"{given[0]} goes with --real", hint="for example --real b11549")


def compare_real(
    real: RealRuns | None, scenarios: Sequence[Scenario], as_json: bool, runs: Sequence[Data] = ()
) -> list[Data]:
    """Run each scenario once on the real servers, and print the comparisons unless ``as_json``; return them. ``runs``:
    simulated runs whose numbers are already printed, one for each scenario, () = none."""
    if real is None:
        return []
    once = {(scenario.id, repr(scenario)): scenario for scenario in scenarios}
    compared = real.compare(list(once.values()))
    if not as_json:
        shown = [_shown_run(scenario, run) for scenario, run in zip(scenarios, runs, strict=False)]
        real.show(compared, shown)
    return compared


def _shown_run(scenario: Scenario, run: Data) -> ShownRun:
    """Return the numbers of a simulated run, under the name that a comparison gives its scenario."""
    rows = [(row["cache_n"], row["prompt_n"], row["status"], row["equal_cold"]) for row in run["requests"]]
    return ShownRun(scenario.id if scenario.file else repr(scenario), tuple(rows))


def real_part(compared: Sequence[Data]) -> Data:
    """Return the key of a command's JSON for comparisons; nothing without ``--real``."""
    return {"real": list(compared)} if compared else {}


def real_code(compared: Sequence[Data]) -> int:
    """Return the exit code of comparisons: 1 if simulator and real server differ, 3 if a comparison is undecided."""
    return exits.worst(exit_code_of(data["same"]) for data in compared)


