"""Heads of the bundled scenarios: what a list or a search of scenarios needs, read without requests and expectations.

A search looks at all scenarios. The keys above the first table of a file are a small part of the work of the file.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any, Iterable, NamedTuple

from cachesim.scenarios.option_checks import model_named

_TABLE = re.compile(r"^\[", re.M)
_REQUEST = re.compile(r"^\[\[request\]\]", re.M)


class ScenarioHead(NamedTuple):
    """Head of a scenario: the fields of ``Scenario`` with these names, and the number of its steps."""

    id: str
    title: str
    why: str
    source: tuple[str, ...]
    engine: str
    model: str
    profiles: tuple[str, ...]
    symptom: str
    file: str
    requests: int


def read_heads(files: Iterable[Path]) -> list[ScenarioHead]:
    """Return the heads of bundled scenarios, which the tests of the corpus have checked."""
    return [_head_of(file) for file in files]


def grouped(scenarios: Iterable[ScenarioHead]) -> dict[str, list[ScenarioHead]]:
    """Return scenarios by symptom, in the order of first occurrence; scenarios without a symptom under ""."""
    groups: dict[str, list[ScenarioHead]] = {}
    for scenario in scenarios:
        groups.setdefault(scenario.symptom, []).append(scenario)
    return groups


def _head_of(file: Path) -> ScenarioHead:
    text = file.read_text("utf-8")
    keys = _top_keys(text)
    return ScenarioHead(
        id=keys["id"],
        title=keys["title"],
        why=keys["why"],
        source=tuple(keys["source"]),
        engine=keys["engine"],
        model=model_named(keys["model"], keys["engine"]).model,
        profiles=tuple(keys["profiles"]),
        symptom=keys.get("symptom", ""),
        file=str(file),
        requests=len(keys["request"]) if "request" in keys else len(_REQUEST.findall(text)),
    )


def _top_keys(text: str) -> dict[str, Any]:
    """Return the keys above the first table. If a line in a text or a list looks like a table, the part above it is not
    valid TOML; then return all keys of the file."""
    table = _TABLE.search(text)
    if table is not None:
        try:
            return tomllib.loads(text[: table.start()])
        except tomllib.TOMLDecodeError:
            pass
    return tomllib.loads(text)
