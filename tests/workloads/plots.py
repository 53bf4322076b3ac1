"""Plots in the documents: the causes of re-evaluated tokens, and the settings for agents. Both are drawn from numbers
that the documents have, so that they can be drawn again without a run."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from cachesim.tools.picture.plot import (
    PlotLine,
    PlotMark,
    PlotPoint,
    PlotRow,
    PlotSeries,
    PointPlot,
    RowPlot,
    draw_plots,
)
from cachesim.tools.picture.plot_axis import Axis
from tests.workloads.agents import CLIENTS, MEMORY, MODELS, TITLES, AgentCell, Lines, every

LOSSES = re.compile(r"^## Why tokens were re-evaluated.*?\n\n(In .*?)\n\n(\|.*?)\n\n", re.M | re.S)
NAMED = 2  # causes that stand beside a mark


class LossRow(NamedTuple):
    """Re-evaluated tokens of a rule set by cause, in per cent of the prompt tokens."""

    rules: str
    lost: Mapping[str, float]

    @property
    def total(self) -> float:
        """All of them."""
        return round(sum(self.lost.values()), 2)

    @property
    def says(self) -> str:
        """The number, and the largest causes."""
        largest = sorted((cause for cause in self.lost if self.lost[cause]), key=self.lost.__getitem__, reverse=True)
        return f"{self.total:.2f} %: " + ", ".join(f"{cause} {self.lost[cause]:.2f}" for cause in largest[:NAMED])


def loss_rows(page: str) -> tuple[str, list[LossRow]]:
    """Return the sentence above the table of causes of a page, and the rows of the table."""
    [(about, table)] = LOSSES.findall(page)
    head, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
    causes = head[1:-1]
    return about, [LossRow(line[0], dict(zip(causes, map(float, line[1:-1]), strict=True))) for line in lines]


def loss_picture(page: str) -> str:
    """Return the re-evaluated tokens of each rule set of a page as a drawing."""
    about, rows = loss_rows(page)
    newest = rows[0]
    worst = max(rows, key=lambda row: row.total)
    return draw_plots([RowPlot(
        title=f"{newest.rules} evaluates {newest.total:.2f} % of the prompt tokens again, "
              f"{worst.rules} {worst.total:.2f} %",
        about=[f"{about} Beside a mark: the two largest causes."],
        axis=Axis("evaluated again [% of prompt tokens, log]", is_log=True),
        rows=[PlotRow(row.rules, row.says, marks=[PlotMark("1" if row is worst else "0", row.total)]) for row in rows],
    )])  # fmt: skip


def agents_picture(lines: Lines) -> str:
    """Return the evaluated share of the best settings against the memory, a plot for each kind of model."""
    return draw_plots([_agents_plot(kind, lines) for kind in MODELS])


def _agents_plot(kind: str, lines: Lines) -> PointPlot:
    shares = {one: 100 * best["evaluated"] / best["prompt_tokens"]
              for one in every() if one.kind == kind and (best := lines[one]["best"])}  # fmt: skip
    labels = _labels(shares)
    first, *_, last = (shares[AgentCell(kind, CLIENTS[-1], gib)] for gib in MEMORY)
    best = lines[AgentCell(kind, CLIENTS[-1], MEMORY[-1])]["best"]
    bound = 100 * best["bound"] / best["prompt_tokens"]
    return PointPlot(
        title=f"{TITLES[kind]} ({MODELS[kind]}): {CLIENTS[-1]} agents evaluate {first:.2f} % in {MEMORY[0]} GiB, "
              f"{last:.2f} % in {MEMORY[-1]} GiB",
        about=["Each point: the setting that evaluates the fewest tokens. Beside it: agents, and their share."],
        x=Axis("memory for caches [GiB, log]", is_log=True, doubles=True),
        y=Axis("evaluated [% of prompt tokens, log]", is_log=True),
        series=[_agents_series(clients, shares, labels) for clients in CLIENTS],
        levels=[PlotLine(bound, f"any server: at least {bound:.2f} %", is_limit=False)],
    )  # fmt: skip


def _agents_series(clients: int, shares: Mapping[AgentCell, float], labels: Mapping[AgentCell, str]) -> PlotSeries:
    name = f"{clients} agent{'s' * (clients > 1)}"
    points = [PlotPoint(one.gib, share, f"{name}, {one.gib} GiB: {share:.2f} %", labels.get(one, ""))
              for one, share in shares.items() if one.clients == clients]  # fmt: skip
    return PlotSeries(name, str(clients - 1), points, "step")


def _labels(shares: Mapping[AgentCell, float]) -> dict[AgentCell, str]:
    """Return a label for each place of a plot at which a share is new. It names all agents that have it there."""
    groups: dict[tuple[int, str], list[AgentCell]] = {}
    before: dict[int, str] = {}
    for one, share in shares.items():
        says = f"{share:.2f} %"
        if before.get(one.clients) != says:
            groups.setdefault((one.gib, says), []).append(one)
        before[one.clients] = says
    return {some[0]: f"{', '.join(str(one.clients) for one in some)}: {says}" for (_, says), some in groups.items()}
