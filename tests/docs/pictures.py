"""Pictures of the scenarios of five threads that the project grew from: made by the product, compared by content."""

from __future__ import annotations

from pathlib import Path

import cachesim
from cachesim.judging.run_data import run_data
from cachesim.tools.picture.scene import scene
from cachesim.tools.picture.svg import draw

CORPUS = Path(__file__).resolve().parents[2] / "scenarios"
FOLDER = CORPUS / "pictures"
RUNS = 2
"""Rule sets of a scenario that are drawn, at most."""
UNDER = {"one-loss": ("seed-24143-dense", "llama_cpp@b11549")}
"""Picture -> scenario and the one rule set under which it is drawn: the README shows this one."""


def names() -> list[str]:
    """The pictures: one for each seed, and those that are shown elsewhere."""
    return [*sorted(one.stem for one in CORPUS.glob("**/seed-*.toml")), *UNDER]


def picture(name: str) -> str:
    """The drawing of a scenario under its first rule sets, or under the one that is named."""
    return drawn(UNDER[name][0], 1, UNDER[name][1]) if name in UNDER else drawn(name, RUNS)


def drawn(scenario: str, runs: int, profile: str = "") -> str:
    """The drawing of a scenario, by its id or its file, under so many of its rule sets, or under this one."""
    case = cachesim.load(scenario)
    profiles = [profile] if profile else case.profiles[:runs]
    return draw([scene(case, run_data(cachesim.judge(case, one, mode="provenance"))) for one in profiles])


def renew() -> None:
    """Write those that have changed."""
    FOLDER.mkdir(exist_ok=True)
    for name in names():
        (FOLDER / f"{name}.svg").write_text(picture(name), "utf-8")


if __name__ == "__main__":
    renew()
