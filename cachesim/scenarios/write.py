"""How does a scenario that a program made become a file?"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Sequence

from cachesim.scenarios.options import manual_of
from cachesim.scenarios.schema import Action
from cachesim.scenarios.steps import Asked
from cachesim.scenarios.words import written

_FLAGS = ("task", "n_keep", "n_discard", "n_cache_reuse", "n_cmpl", "id_slot", "cache_prompt", "cancel_after",
          "draft_else", "together", "after", "seed")  # fmt: skip


def to_toml(
    head: Mapping[str, Any], server: Mapping[str, Any], words: Mapping[str, int], asked: Sequence[Asked]
) -> str:
    """The text of a file that ``load`` reads back. ``head`` has the keys of the top; of ``server`` only what is not a
    default is written."""
    plain = manual_of(head["engine"]).scenario
    given = {name: value for name, value in server.items() if plain[name] != value}
    parts = [_table("", head), _table("server", given), _table("words", words)]
    parts += [_table("[request]", dict(_request(one, words))) for one in asked]
    return "\n".join(part for part in parts if part)


def _table(name: str, values: Mapping[str, Any]) -> str:
    if not values:
        return ""
    lines = [f"[{name}]"] if name else []
    return "\n".join([*lines, *(f"{key} = {_value(value)}" for key, value in values.items()), ""])


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)            # strings, numbers, true and false are written alike in both


def _request(one: Asked, words: Mapping[str, int]) -> Iterator[tuple[str, Any]]:
    if one.action is not None:
        yield from _action(one.action)
        return
    if one.chat:
        yield "chat", [f"{role} {written(pieces, words)}".strip() for role, pieces in one.chat]
    else:
        yield "prompt", written(one.prompt, words)
    if one.answer is not None:
        yield "answer", written(one.answer, words)
    plain = Asked(())
    for flag in _FLAGS:
        if getattr(one, flag) != getattr(plain, flag):
            yield flag, getattr(one, flag)
    if one.drafts:
        yield "drafts", one.drafts


def _action(action: Action) -> Iterator[tuple[str, Any]]:
    yield "do", action.do
    if action.id_slot >= 0 and action.do != "restart":
        yield "id_slot", action.id_slot
    if action.file:
        yield "file", action.file
    if action.server:
        yield "server", dict(action.server)
