"""The pictures of the five threads that the project grew from: made by the product, compared by content."""

from __future__ import annotations

from pathlib import Path

import cachesim
from cachesim.picture.scene import scene
from cachesim.picture.svg import draw
from cachesim.reports.run_data import run_data

FOLDER = Path(__file__).resolve().parents[2] / "scenarios" / "pictures"
SHOWN = {
    "seed-1889-as-released": 2, "seed-24035-case1": 2, "seed-24143-hybrid": 2, "seed-24143-dense": 2,
    "seed-1006-key-of-another-state": 2,
}  # fmt: skip
"""Scenario -> how many of its rule sets are drawn."""
UNDER = {"one-loss": ("seed-24143-dense", "llama_cpp@b11549")}
"""Picture -> scenario and the one rule set under which it is drawn: the README shows this one."""


def picture(name: str) -> str:
    """The drawing of a scenario under its first rule sets, or under the one that is named."""
    case = cachesim.load(UNDER[name][0] if name in UNDER else name)
    profiles = [UNDER[name][1]] if name in UNDER else case.profiles[: SHOWN[name]]
    return draw([scene(case, run_data(cachesim.judge(case, one, mode="provenance"))) for one in profiles])


def renew() -> None:
    """Write those that have changed."""
    FOLDER.mkdir(exist_ok=True)
    for name in (*SHOWN, *UNDER):
        (FOLDER / f"{name}.svg").write_text(picture(name), "utf-8")


if __name__ == "__main__":
    renew()
