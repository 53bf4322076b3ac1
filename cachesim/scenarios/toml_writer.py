"""How does a scenario that a program made become a file?"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, Sequence

from cachesim.scenarios.notation.spell import Lengths
from cachesim.scenarios.notation.tree import PLAIN, Action, Asked
from cachesim.scenarios.notation.words import canonical
from cachesim.scenarios.schema import SCHEMA

_FLAGS = ("task", "n_keep", "n_discard", "n_cache_reuse", "n_cmpl", "id_slot", "cache_prompt", "cancel_after",
          "draft_else", "together", "after", "seed", "drafts", "n_predict")  # fmt: skip


def to_toml(
    head: Mapping[str, Any], server: Mapping[str, Any], words: Mapping[str, int], asked: Sequence[Asked | Action]
) -> str:
    """The text of a file that ``load`` reads back. ``head`` has the keys of the top, ``server`` the options that are
    given."""
    parts = [_table("", {"schema": SCHEMA, **head}), _table("server", server), _table("words", words)]
    steps = [canonical(one, words) for one in asked]
    parts += [_table("[request]", dict(_action(one) if isinstance(one, Action) else _request(one))) for one in steps]
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


def _request(step: Asked) -> Iterator[tuple[str, Any]]:
    write = Lengths().text
    if step.chat:
        yield "chat", [f"{role} {write(pieces)}".strip() for role, pieces in step.chat]
    else:
        yield "prompt", write(step.prompt)
    if step.answer is not None:
        yield "answer", write(step.answer)
    for name in _FLAGS:
        if getattr(step, name) != getattr(PLAIN, name):
            yield name, getattr(step, name)
    if step.answers:
        yield "answers", [write(pieces) for pieces in step.answers]


def _action(action: Action) -> Iterator[tuple[str, Any]]:
    yield "do", action.do
    if action.id_slot >= 0 and action.do != "restart":
        yield "id_slot", action.id_slot
    if action.file:
        yield "file", action.file
    if action.server:
        yield "server", dict(action.server)
