"""Classification of a change to the tool definitions: order, keys, added or removed tools, or a changed definition."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Sequence

from cachesim.tools.request_bodies.plain_render import canonical

ORDER = "order of tools"
KEYS = "order of keys"
LIST = "tools"
ONE = "a tool"
CAUSES = (ORDER, KEYS, LIST, ONE)
SHOWN = 4                    # listed names, at most


def tools_change(a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]]) -> tuple[str, str]:
    """Return the kind of change, and the names of the tools concerned; ("", "") if nothing changed."""
    old, new = [tool for _, tool in a], [tool for _, tool in b]
    if list(map(json.dumps, old)) == list(map(json.dumps, new)):
        return "", ""
    old_texts, new_texts = Counter(map(canonical, old)), Counter(map(canonical, new))
    if old_texts == new_texts:
        return (KEYS, "") if list(map(canonical, old)) == list(map(canonical, new)) else (ORDER, "")
    old_names, new_names = Counter(map(name_of, old)), Counter(map(name_of, new))
    if old_names == new_names:
        changed = [name_of(tool) for tool in new if canonical(tool) not in old_texts]
        if _unordered(old) == _unordered(new):
            return KEYS, _list(changed)
        return ONE, _list(changed)
    added, removed = sorted((new_names - old_names).elements()), sorted((old_names - new_names).elements())
    details = [f"{word} {_list(names)}" for word, names in (("added", added), ("removed", removed)) if names]
    return LIST, ", ".join(details)


def name_of(tool: Any) -> str:
    """Return the name of a tool, for the formats of all APIs; "?" if it has none."""
    if not isinstance(tool, dict):
        return "?"
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name", tool.get("type"))
    return name if isinstance(name, str) else "?"


def _unordered(tools: Sequence[Any]) -> Counter[str]:
    """Return the tools with their lists sorted (`required`, `enum`), counted."""
    return Counter(canonical(_sorted(tool)) for tool in tools)


def _sorted(value: Any) -> Any:
    """Return a value with all its lists sorted."""
    if isinstance(value, dict):
        return {key: _sorted(entry) for key, entry in value.items()}
    return sorted(map(_sorted, value), key=canonical) if isinstance(value, list) else value


def _list(names: Sequence[str]) -> str:
    """Return the first names as a string, with their total number if there are more."""
    some = ", ".join(names[:SHOWN])
    return f"{some}, ... ({len(names)})" if len(names) > SHOWN else some
