"""Search for drawn conversations that differ between the simulator and a real server, and shrinking on both."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real.comparison import RealComparison, compare_case, comparison_data
from cachesim.tools.live.llama_server.real.drawn_servers import option_set
from cachesim.tools.live.llama_server.real.real_server import RealServer
from cachesim.tools.live.llama_server.real.shrinking import shrink
from cachesim.tools.search.drawn_conversation import DrawnConversation

PER_SERVER = 10             # conversations with the same options


class RealSearchPlan(NamedTuple):
    """What is drawn. ``narrowed``: models, and options ``key=value`` of every server; ``shrinks``: differences are
    shrunk."""

    seed: int
    narrowed: tuple[str, ...] = ()
    shrinks: bool = True


@dataclass
class RealTally:
    """Results of the conversations on a server. ``left_out``: reasons and their number; ``undecided``: reasons of
    requests and their number."""

    server: RealServer
    conversations: int = 0
    requests: int = 0
    equal: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)

    def data(self) -> dict[str, Any]:
        """Return the results as plain data."""
        return {"build": self.server.build, "server": self.server.source, "profile": self.server.profile,
                "log_read": self.server.is_logged, "conversations": self.conversations, "requests": self.requests,
                "equal": self.equal, "differences": self.differences,
                "undecided": [{"why": why, "requests": n} for why, n in self.undecided.most_common()],
                "left_out": [{"why": why, "conversations": n} for why, n in self.left_out.most_common()]}  # fmt: skip


def search_real(tally: RealTally, plan: RealSearchPlan, number: int, stop: Callable[[], bool]) -> None:
    """Run the drawn conversation ``number`` on both sides and add the result to the tally."""
    options = option_set(plan.seed, number // PER_SERVER, plan.narrowed).on_build(tally.server.build)
    case = options.case(number % PER_SERVER)
    compared = _compare(case, tally.server)
    if compared is None or compared.found is None or not compared.found.rows:
        tally.left_out[_kind(compared.left_out if compared else "it is not a valid scenario")] += 1
        return
    tally.conversations += 1
    for row in compared.found.rows:
        tally.requests += 1
        if row.same is True:
            tally.equal += 1
        if row.same is None:
            tally.undecided[_kind(row.why)] += 1
    if compared.same is False:
        tally.differences.append(_difference(case, compared, number, plan, stop))


def _compare(case: DrawnConversation, server: RealServer) -> RealComparison | None:
    """Run a conversation on both sides; None if it is not a valid scenario."""
    try:
        scenario = case.scenario(server.profile)
    except BadInput:
        return None
    return compare_case(scenario, server)


def _difference(
    case: DrawnConversation, compared: RealComparison, number: int, plan: RealSearchPlan, stop: Callable[[], bool]
) -> dict[str, Any]:
    """Return a difference with its smallest conversation."""
    found = [(case, compared)]

    def differs(smaller: DrawnConversation) -> bool:
        again = _compare(smaller, compared.server)
        if again is None or again.same is not False:
            return False
        found.append((smaller, again))
        return True

    if plan.shrinks:
        shrink(case, differs, stop)
    smallest, beside = found[-1]
    return {"number": number, "shrunk": plan.shrinks, **smallest.typed(compared.server.profile),
            "comparison": comparison_data(beside)}  # fmt: skip


def _kind(why: str) -> str:
    """Return a reason without the number of its request."""
    return re.sub(r"^request \d+", "a request", why)
