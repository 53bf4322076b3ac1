"""List of the models whose sizes are known by name, with the source of their sizes."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from cachesim.engines.shared.model_sizes import known_repository, known_sizes, real_model, size_check, sizes_of

Data = dict[str, Any]


def model_list() -> list[Data]:
    """Return name, repository, layers, bytes of a token, context and the place of comparison of each model."""
    return [{
        "name": name, "repository": known_repository(name), "layers": sizes_of(name).layers,
        "number": len(real_model(name).layers), "context": real_model(name).context or None,
        "token": sizes_of(name).token_bytes, "state": sizes_of(name).state_bytes, "compared": size_check(name),
    } for name in known_sizes()]  # fmt: skip


def models_report(models: list[Data]) -> RenderableType:
    """Return a paragraph for each model."""
    parts: list[RenderableType] = [Text("sizes by name: config.json of the repository, and a second public place")]
    for one in models:
        parts.append(Text.assemble((one["name"], "cyan"), f": {one['repository']}"))
        context = f", context {one['context']:,}" if one["context"] else ""
        state = f", {one['state']:,} of states" if one["state"] else ""
        parts.append(Padding.indent(Text(f"{one['number']} layers ({one['layers']}), {one['token']:,} bytes of a token"
                                         f"{state}{context}"), 2))  # fmt: skip
        found = f"compared with {one['compared']}" if one["compared"] else "not verified: no second place was found"
        parts.append(Padding.indent(Text(found, "" if one["compared"] else "yellow"), 2))
    return Group(*parts)
