"""Which scenarios are there? One row each, or as data."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.scenarios.schema import Scenario


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """What a scenario is about; ``requests`` counts its steps."""
    return {
        "id": scenario.id, "title": scenario.title, "engine": scenario.engine, "model": scenario.model,
        "profiles": list(scenario.profiles), "source": list(scenario.source), "requests": len(scenario.steps),
        "file": scenario.file,
    }  # fmt: skip


def scenario_list(scenarios: Sequence[Scenario]) -> RenderableType:
    """Ids and titles; the id is what a command takes."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("id", no_wrap=True)
    table.add_column("title")
    for one in scenarios:
        table.add_row(Text(one.id, "bold"), Text(one.title))
    return table
