"""What was changed in the definitions of tools: their order, their keys, which there are, or one of them?"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Sequence

from cachesim.tools.request_bodies.plain_render import canonical

ORDER, KEYS, LIST, ONE = "order of tools", "order of keys", "tools", "a tool"
SHOWN = 4                    # names that are listed


def tools_changed(a: Sequence[tuple[str, Any]], b: Sequence[tuple[str, Any]]) -> tuple[str, str]:
    """What was changed, and the names that it concerns; ("", "") if nothing was."""
    old, new = [one for _, one in a], [one for _, one in b]
    if list(map(json.dumps, old)) == list(map(json.dumps, new)):
        return "", ""
    one, other = Counter(map(canonical, old)), Counter(map(canonical, new))
    if one == other:
        return (KEYS, "") if list(map(canonical, old)) == list(map(canonical, new)) else (ORDER, "")
    names, now = Counter(map(name_of, old)), Counter(map(name_of, new))
    if names == now:
        changed = [name_of(tool) for tool in new if canonical(tool) not in one]
        if _unordered(old) == _unordered(new):
            return KEYS, _list(changed)
        return ONE, _list(changed)
    added, removed = sorted((now - names).elements()), sorted((names - now).elements())
    said = [f"{word} {_list(some)}" for word, some in (("added", added), ("removed", removed)) if some]
    return LIST, ", ".join(said)


def name_of(tool: Any) -> str:
    """The name of a tool, in any dialect."""
    if not isinstance(tool, dict):
        return "?"
    function = tool.get("function")
    name = function.get("name") if isinstance(function, dict) else tool.get("name", tool.get("type"))
    return name if isinstance(name, str) else "?"


def _unordered(tools: Sequence[Any]) -> Counter[str]:
    """Tools whose lists have no order either (`required`, `enum`)."""
    return Counter(canonical(_sorted(tool)) for tool in tools)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(one) for key, one in value.items()}
    return sorted(map(_sorted, value), key=canonical) if isinstance(value, list) else value


def _list(names: Sequence[str]) -> str:
    some = ", ".join(names[:SHOWN])
    return f"{some}, ... ({len(names)})" if len(names) > SHOWN else some
