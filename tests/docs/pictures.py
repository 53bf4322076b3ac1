"""Pictures of the scenarios of five threads from which the project started, drawn by cachesim and compared by
content."""

from __future__ import annotations

from pathlib import Path

import cachesim
from cachesim.tools.picture.svg import draw
from cachesim.tools.run.pictured_runs import run_pictured
from tests.docs.read_again import read_again

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
FOLDER = CORPUS / "pictures"
RUNS = 2
"""Rule sets to draw per scenario, at most."""
DOOR = "read-again"
"""Name of the picture in the README."""


def names() -> list[str]:
    """Return the names of the pictures: of every scenario in a folder ``threads``, and of the README's."""
    return [*sorted(file.stem for file in CORPUS.glob("*/threads/*.toml")), DOOR]


def picture(name: str) -> str:
    """Return a picture: a scenario under its first rule sets, or the picture in the README."""
    return read_again() if name == DOOR else drawn(name, RUNS)


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
