"""Schemas of JSON values, and validation of a value against a schema.

Schemas use a small part of JSON Schema (2020-12): type, properties, required, items, additionalProperties.
"""

from __future__ import annotations

from typing import Any, Iterator

TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number",
         type(None): "null"}  # fmt: skip
MAPS = frozenset({"latest", "outside", "unlogged", "defaults", "ended", "numbers", "because", "server", "kinds",
                  "unset", "words", "given", "titles"})  # fmt: skip
"""Keys whose value is a table with keys of its own, such as names of options."""
ORDER = ("$schema", "title", "description", "type", "properties", "required", "items", "additionalProperties")


def form(value: Any, key: str = "") -> dict[str, Any]:
    """Return the schema of a value; ``key``: its key in the parent."""
    schema: dict[str, Any] = {"type": TYPES[type(value)]}
    if isinstance(value, list):
        schema["items"] = merged([form(one) for one in value])
    elif isinstance(value, dict) and key in MAPS:
        schema["additionalProperties"] = merged([form(one) for one in value.values()])
    elif isinstance(value, dict):
        schema["properties"] = {name: form(one, name) for name, one in value.items()}
        schema["required"] = sorted(value)
    return schema


def merged(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a schema that accepts every value of these schemas."""
    found: dict[str, Any] = {}
    for schema in (one for one in schemas if one):
        found = _both(found, schema) if found else schema
    return found


def _both(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    types = set(_types(a)) | set(_types(b))
    both: dict[str, Any] = {"type": sorted(types) if len(types) > 1 else types.pop()}
    for key in ("items", "additionalProperties"):
        if key in a or key in b:
            both[key] = merged([a.get(key, {}), b.get(key, {})])
    if "properties" in a or "properties" in b:
        x, y = a.get("properties"), b.get("properties")
        names = {**(x or {}), **(y or {})}
        both["properties"] = {name: merged([(x or {}).get(name, {}), (y or {}).get(name, {})]) for name in names}
        known = [set(one["required"]) for one in (a, b) if "properties" in one]
        both["required"] = sorted(set.intersection(*known))
    return both


def _types(schema: dict[str, Any]) -> list[str]:
    kind = schema["type"]
    return kind if isinstance(kind, list) else [kind]


def wrong(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Return the places where a value differs from the schema. Keys that the schema does not name are allowed."""
    kind = TYPES[type(value)]
    types = _types(schema) if "type" in schema else [kind]
    if kind not in types and not (kind == "integer" and "number" in types):
        yield f"{path or 'the value'} is {kind}, not {' or '.join(types)}"
        return
    if isinstance(value, list):
        for i, one in enumerate(value):
            yield from wrong(one, schema.get("items", {}), f"{path}[{i}]")
    if isinstance(value, dict):
        yield from (f"{path} has no {name}" for name in schema.get("required", ()) if name not in value)
        for name, one in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            yield from wrong(one, inner, f"{path}.{name}")


def described(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every property below a schema: its path and its description."""
    for name, one in schema.get("properties", {}).items():
        yield f"{path}.{name}", one.get("description", "")
        yield from described(one, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from described(schema[key], f"{path}[]")
