"""Real servers for commands whose tools the starter of real servers imports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, Collection, Sequence

from cachesim.base.console import show
from cachesim.base.errors import BadInput, NotStarted
from cachesim.base.progress_bar import progress
from cachesim.base.untrusted_files import FILE, kind
from cachesim.scenarios.schema import Scenario
from cachesim.tools.live.llama_server.real.comparison import compare_cases, comparison_data
from cachesim.tools.live.llama_server.real.drawn_search import RealSearchPlan, RealTally, search_real
from cachesim.tools.live.llama_server.real.real_bisect import bisect_real, history_data, wheels_between
from cachesim.tools.live.llama_server.real.real_server import RealServer, find_servers
from cachesim.tools.live.llama_server.real.serving import Serving
from cachesim.tools.live.real_report import comparisons_report, history_report, search_report
from cachesim.tools.run.real_option import RealOptions, ShownRun

Data = dict[str, Any]


@dataclass
class RealSearch:
    """A search for drawn conversations that differ on a server."""

    tally: RealTally
    plan: RealSearchPlan

    def run(self, number: int, stop: Callable[[], bool]) -> None:
        """Run the drawn conversation of a number on both sides."""
        search_real(self.tally, self.plan, number, stop)

    def data(self) -> Data:
        """Return the results so far as plain data."""
        return self.tally.data()


class RealServers:
    """The real servers that ``--real`` names; missing wheels are installed with ``--install``, or if the user agrees.
    Raise BadInput."""

    def __init__(self, options: RealOptions) -> None:
        self.text = options.servers
        self.may_install = options.may_install
        self.gguf = options.gguf

    @cached_property
    def servers(self) -> list[RealServer]:
        """The servers, in the order of the command line."""
        return find_servers(self.text, self.may_install)

    def require(self) -> None:
        """Check the model file, find the servers, and install what is missing. Raise BadInput."""
        self._check_model()
        _ = self.servers

    def _check_model(self) -> None:
        """Raise BadInput if the model file does not exist."""
        if self.gguf is not None and kind(self.gguf) != FILE:
            raise BadInput("no such model", file=str(self.gguf))

    def compare(self, scenarios: Sequence[Scenario]) -> list[Data]:
        """Return the comparison of each scenario on each server as plain data."""
        total = len(scenarios) * len(self.servers)
        found = progress(compare_cases(scenarios, self.servers, self.gguf), total, "real servers")
        return [comparison_data(compared) for compared in found]

    def show(self, compared: Sequence[Data], shown: Collection[ShownRun] = ()) -> None:
        """Print comparisons, and whether the real builds differ from each other. ``shown``: runs whose numbers stand
        above; requests that are equal are not listed again."""
        show(*comparisons_report(compared, shown))

    def bisect(self, scenario: Scenario) -> Data:
        """Return the course of a scenario over the real builds as plain data."""
        self._check_model()
        found = bisect_real(scenario, wheels_between(self.text), self.may_install, self.gguf)
        return history_data(found)

    def show_history(self, data: Data) -> None:
        """Print the course of a scenario over the real builds."""
        show(history_report(data), "")

    def search(self, seed: int, narrowed: tuple[str, ...], shrinks: bool) -> list[RealSearch]:
        """Return a search for drawn conversations on each server."""
        plan = RealSearchPlan(seed, narrowed, shrinks)
        return [RealSearch(RealTally(server), plan) for server in self.servers]

    def show_search(self, found: Sequence[Data]) -> None:
        """Print the results of searches."""
        show(*map(search_report, found))

    def serve(self, layers: str, flags: Sequence[str]) -> Serving:
        """Start the server of the first build with a model of these layers. Raise BadInput; NotStarted if it does not
        start."""
        serving = Serving(self.servers[0], str(self.gguf or layers), flags)
        try:
            serving.wait_ready()
        except BaseException as error:
            serving.stop()
            if isinstance(error, BadInput):
                raise NotStarted(error.cause, file=error.file, hint=error.hint) from None
            raise
        return serving
