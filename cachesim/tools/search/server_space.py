"""Which server does a conversation meet? A model and options, drawn by the engine; and classes of models."""

from __future__ import annotations

from typing import Iterable, Mapping

from cachesim.engines.manual import World
from cachesim.engines.registry import ENGINES
from cachesim.model.rng import Rng
from cachesim.scenarios.option_checks import parse_settings

MODELS: Mapping[str, tuple[str, ...]] = {name: engine.manual.drawn for name, engine in ENGINES.items()}
"""Small models of every kind of memory, by engine."""

KINDS: Mapping[str, tuple[str, ...]] = {
    "A": ("A", "AA"), "W": ("W8 A", "W8 W8"), "R": ("S", "SS"), "H": ("GA", "GGGA", "CA", "H", "HH"),
    "HW": ("G W8", "C W8", "W8 G"), "M": ("GGA+M", "A+M"),
}
"""Classes by which a search can be narrowed: attention, windows, recurrent, hybrids, hybrids with windows, MTP."""


def draw_world(rng: Rng, engine: str, models: tuple[str, ...] = ()) -> World:
    """A server of this engine; ``models`` narrows the choice, and sets options (``key=value``)."""
    manual = ENGINES[engine].manual
    known = [one for one in manual.drawn if one in models] or list(manual.drawn)
    rings = [one for one in known if "W" in one]            # they have the most to lose, and the longest way to it
    world = manual.draw(rng, rng.one(rings if rings and rng.chance(20) else known))
    given = parse_settings(settings_in(models), engine)
    return world._replace(server={**world.server, **given}) if given else world


def settings_in(models: Iterable[str]) -> list[str]:
    """Those of what narrows a search that set an option."""
    return [one for one in models if "=" in one]
