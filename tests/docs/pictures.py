"""Pictures of the scenarios of five threads from which the project started, drawn by cachesim and compared by
content."""

from __future__ import annotations

from pathlib import Path

import cachesim
from cachesim.tools.picture.svg import draw
from cachesim.tools.run.pictured_runs import run_pictured

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
FOLDER = CORPUS / "pictures"
RUNS = 2
"""Rule sets to draw per scenario, at most."""
UNDER = {"one-loss": ("llama-24143-entry-removed-dense", "llama_cpp@b11549")}
"""Picture -> scenario and rule set of the picture in the README."""


def names() -> list[str]:
    """Return the names of the pictures: of every scenario in a folder ``threads``, and of those shown elsewhere."""
    return [*sorted(file.stem for file in CORPUS.glob("*/threads/*.toml")), *UNDER]


def picture(name: str) -> str:
    """Return a picture: a scenario under its first rule sets, or under the rule set in ``UNDER``."""
    return drawn(UNDER[name][0], 1, UNDER[name][1]) if name in UNDER else drawn(name, RUNS)


def drawn(scenario: str, runs: int, profile: str = "") -> str:
    """Return the drawing of a scenario (id or file), under its first ``runs`` rule sets or under ``profile``."""
    case = cachesim.load(scenario)
    profiles = [profile] if profile else case.profiles[:runs]
    return draw([run_pictured(case, one, events=False).scene() for one in profiles])


def renew() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name in names():
        (FOLDER / f"{name}.svg").write_text(picture(name), "utf-8")


if __name__ == "__main__":
    renew()
