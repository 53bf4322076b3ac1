"""Which scenarios are there? One row each, below what a user sees, or as data."""

from __future__ import annotations

from typing import Any, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.symptoms import SYMPTOMS, grouped


def scenario_data(scenario: Scenario) -> dict[str, Any]:
    """What a scenario is about; ``requests`` counts its steps."""
    return {
        "id": scenario.id, "title": scenario.title, "engine": scenario.engine, "model": scenario.model,
        "profiles": list(scenario.profiles), "source": list(scenario.source), "requests": len(scenario.steps),
        "file": scenario.file, "symptom": scenario.symptom,
    }  # fmt: skip


def scenario_list(scenarios: Sequence[Scenario]) -> RenderableType:
    """Ids and titles by symptom; the id is what a command takes."""
    wide = max(len(one.id) for one in scenarios)
    parts: list[RenderableType] = []
    for name, group in grouped(scenarios).items():
        parts.append(Text.assemble((name, "bold cyan"), f"  {SYMPTOMS[name].text}" if name else ""))
        table = Table(box=None, padding=(0, 1), show_header=False)
        table.add_column(no_wrap=True, min_width=wide)
        table.add_column()
        for one in group:
            table.add_row(Text(one.id, "bold"), Text(one.title))
        parts += [table, Text()]
    return Group(*parts[:-1])
