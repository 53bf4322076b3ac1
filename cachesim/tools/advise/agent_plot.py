"""Settings for agents as a plot: the evaluated share of each setting against its memory, the frontier, and the memory
that the user has.

Marks show results of different runs: all settings ran on the servers with the longest requests, the best of them on all
servers. The frontier joins the settings of the first kind that no other one beats in memory and tokens.
"""

from __future__ import annotations

from typing import Any, Sequence

from cachesim.tools.advise.agent_report import gib_text, workload_text
from cachesim.tools.advise.agent_search import PART, AgentAdvice, AgentCost, AgentSearch, CostlySetting
from cachesim.tools.picture.plot import PlotLine, PlotPoint, PlotSeries, PointPlot
from cachesim.tools.picture.plot_axis import Axis

Data = dict[str, Any]
GIB = 1 << 30


def agent_plot(search: AgentSearch, advice: AgentAdvice, data: Data) -> PointPlot:
    """Return the plot of the advice. ``data``: that of the report."""
    wrong = {str(one.setting.options) for one in advice.wrong}
    first = [one for one in advice.first if one.cost.prompt and str(one.setting.options) not in wrong]
    numbers = {str(one.setting.options): number for number, one in enumerate(advice.best, 1)}
    ran = [_point(one, numbers.get(str(one.setting.options), 0)) for one in advice.ran if not one.cost.unanswered]
    unanswered = [_point(one, numbers.get(str(one.setting.options), 0)) for one in advice.ran if one.cost.unanswered]
    series = [
        PlotSeries(f"ran on the longest sessions ({_servers(search)}), answers not judged", "faint",
                   [_point(one) for one in first]),
        PlotSeries("of these: none needs less memory and fewer tokens", "2",
                   [_point(one) for one in frontier(first)], "step"),
        PlotSeries("ran on all sessions, as in the report", "0", ran),
        PlotSeries("ran on all sessions, some requests unanswered", "before", unanswered),
        PlotSeries("wrong answers (up to the first server that shows it)", "bad",
                   [_point(one) for one in advice.wrong if one.cost.prompt]),
    ]  # fmt: skip
    out = sorted({one.total / GIB for one in advice.excluded})
    return PointPlot(
        title=_title(data),
        about=[workload_text(data)],
        x=Axis("memory of the caches [GiB], at the fullest", is_log=True, doubles=True),
        y=Axis("evaluated [% of prompt tokens, log]", is_log=True),
        series=[one for one in series if one.points],
        lines=[PlotLine(search.room / GIB, f"memory for caches: {gib_text(search.room)}")],
        levels=_bound(data["best"]),
        ticks=out,
        ticks_say="settings that do not fit: not run",
    )


def frontier(settings: Sequence[CostlySetting]) -> list[CostlySetting]:
    """Return the settings that no other one beats in unanswered requests, memory and evaluated tokens, by memory."""
    found = list[CostlySetting]()
    fewest = min((one.cost.unanswered for one in settings), default=0)
    for one in sorted(settings, key=lambda one: (one.setting.total, one.cost.evaluated)):
        if one.cost.unanswered == fewest and (not found or _share(one.cost) < _share(found[-1].cost)):
            found.append(one)
    return found


def _point(costly: CostlySetting, number: int = 0) -> PlotPoint:
    """Return the point of a setting. ``number``: its place in the report, 0 = not there."""
    options = ", ".join(f"{name} {value}" for name, value in costly.setting.options.items())
    lost = f", {costly.cost.unanswered} unanswered" if costly.cost.unanswered else ""
    share = _share(costly.cost)
    says = f"{options}: {share:.2f} %{lost}, {gib_text(costly.setting.total)}"
    return PlotPoint(costly.setting.total / GIB, share, says, f"{number}: {share:.2f} %{lost}" if number else "")


def _share(cost: AgentCost) -> float:
    return 100 * cost.evaluated / cost.prompt if cost.prompt else 0.0


def _servers(search: AgentSearch) -> str:
    every = len(search.load.servers)
    return f"{-(-every // PART)} of {every} server{'s' * (every != 1)}"


def _bound(best: Data | None) -> list[PlotLine]:
    if best is None or not best["prompt_tokens"]:
        return []
    share = 100 * best["bound"] / best["prompt_tokens"]
    return [PlotLine(share, f"any server: at least {share:.2f} %", is_limit=False)]


def _title(data: Data) -> str:
    best = data["best"]
    if best is None:
        return "every setting gives wrong answers"
    return f"{best['flags']}: {100 * best['share']:.2f} % of the prompt tokens evaluated, in {gib_text(best['bytes'])}"
