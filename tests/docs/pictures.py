"""Pictures of the scenarios of five threads from which the project started, and plots of the documents' numbers, drawn
by cachesim and compared by content."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import cachesim
from cachesim.tools.picture.svg import draw
from cachesim.tools.run.pictured_runs import run_pictured
from tests.docs.read_again import read_again
from tests.workloads import agents, page
from tests.workloads.plots import agents_picture, loss_picture

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
FOLDER = CORPUS / "pictures"
RUNS = 2
"""Rule sets to draw per scenario, at most."""
OTHERS: dict[str, Callable[[], str]] = {
    "read-again": read_again,
    "agents": lambda: agents_picture(agents.read(agents.LINES)),
    "workloads-loss": lambda: loss_picture(page.PAGE.read_text("utf-8")),
}
"""Pictures that show no scenario: in the README, in the page about agents, in WORKLOADS.md."""


def names() -> list[str]:
    """Return the names of the pictures."""
    return [*sorted(file.stem for file in CORPUS.glob("*/threads/*.toml")), *OTHERS]


def picture(name: str) -> str:
    """Return a picture: a scenario under its first rule sets, or another one."""
    return OTHERS[name]() if name in OTHERS else drawn(name, RUNS)


def drawn(scenario: str, runs: int) -> str:
    """Return the drawing of a scenario (id or file), under its first ``runs`` rule sets."""
    case = cachesim.load(scenario)
    return draw([run_pictured(case, one, events=False).scene() for one in case.profiles[:runs]])


def renew() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name in names():
        (FOLDER / f"{name}.svg").write_text(picture(name), "utf-8")


if __name__ == "__main__":
    renew()
