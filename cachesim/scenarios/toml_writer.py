"""Writer of scenario files: whole scenarios, and measured expectations added to existing files.

``complete`` only adds lines: missing keys directly after the header of the profile's table, or a new table at the end.
It parses the new text before writing; a file that would change in any other way is left unchanged.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.escaping import toml_key, toml_string
from cachesim.base.files import write_whole
from cachesim.scenarios.notation.canonical_text import Lengths
from cachesim.scenarios.notation.flags import given
from cachesim.scenarios.notation.tree import Action, LineRequest
from cachesim.scenarios.notation.word_lengths import ImageSize, canonical
from cachesim.scenarios.request_spec import Words
from cachesim.scenarios.schema import SCHEMA
from cachesim.scenarios.toml_source import read_toml

_FLAGS = ("task", "n_keep", "n_discard", "n_cache_reuse", "n_cmpl", "id_slot", "cache_prompt", "cancel_after",
          "draft_else", "together", "after", "seed", "drafts", "n_predict")  # fmt: skip


def to_toml(
    head: Mapping[str, Any], server: Mapping[str, Any], words: Mapping[str, int], asked: Sequence[LineRequest | Action],
    titles: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of a scenario file. ``head``: top-level keys; ``server``: options that are set; ``words``: their
    lengths [tokens], or ``Words`` with pieces of text; ``titles``: of words."""
    written = words.written if isinstance(words, Words) else words
    tables: list[tuple[str, Mapping[str, Any]]] = [
        ("", {"schema": SCHEMA, **head}), ("server", server), ("words", written), ("titles", titles)]  # fmt: skip
    steps = [canonical(step, words) for step in asked]
    tables += [("[request]", dict(_action(step) if isinstance(step, Action) else _request(step))) for step in steps]
    return "\n".join(_table(name, values) for name, values in tables if values)


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"[{name}]"] if name else []
    return "\n".join([*lines, *(f"{toml_key(key)} = {_value(value)}" for key, value in values.items()), ""])


def _value(value: Any) -> str:
    if isinstance(value, tuple | list):
        return "[" + ", ".join(_value(entry) for entry in value) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {_value(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, str | ImageSize):
        return toml_string(str(value))
    return json.dumps(value)                                                        # TOML has the numbers of JSON


def _request(step: LineRequest) -> Iterator[tuple[str, Any]]:
    write = Lengths().text
    if step.chat:
        yield "chat", [f"{role} {write(pieces)}".strip() for role, pieces in step.chat]
    else:
        yield "prompt", write(step.prompt)
    if step.answer is not None:
        yield "answer", write(step.answer)
    yield from given(step, _FLAGS)
    if step.answers:
        yield "answers", [write(pieces) for pieces in step.answers]


def _action(action: Action) -> Iterator[tuple[str, Any]]:
    yield "do", action.do
    if action.id_slot >= 0 and action.do != "restart":
        yield "id_slot", action.id_slot
    if action.file:
        yield "file", action.file
    if action.do == "lora":
        yield "scales", action.scales
    if action.percent < 100:
        yield "percent", action.percent
    if action.server:
        yield "server", dict(action.server)


NOTHING: Mapping[str, Any] = MappingProxyType({})
ORDER = ("cache_n", "prompt_n", "broken", "status", "checkpoints")


def complete(path: Path, profile: str, found: Mapping[str, Sequence[Any]], head: Mapping[str, Any] = NOTHING) -> bool:
    """Add the expectations in ``found`` that the file lacks for ``profile``; return True if the file was changed.

    ``found``: lists under the keys of ``ORDER``. Existing expectations are never changed. ``head``: top-level keys to
    add if they are missing. Raise BadInput.
    """
    raw, source = read_toml(path)
    present = raw.get("expect", {}).get(profile)
    missing = {key: list(found[key]) for key in ORDER if key in found and key not in (present or {})}
    if not missing.get("broken"):
        missing.pop("broken", None)          # a missing key means the same as an empty list
    if set(missing.get("status", ())) <= {200}:
        missing.pop("status", None)          # written only if there is an error
    if not missing:
        return False
    added = {**missing, "completed": True}
    if present is None:
        text, end = source.text, _newline(source.text)
        gap = "" if text.endswith("\n") else end
        text += gap + end + end.join([f"[expect.{toml_string(profile)}]", *_written(added), ""])
    else:
        added = {key: value for key, value in added.items() if key not in present}
        text = _with_keys(source.text, source.line_of(("expect", profile)), added)
    top = {key: value for key, value in head.items() if key not in raw}
    if top:
        text = _with_keys(text, (source.line_of(("profiles",)) or 1) - 1, top)
    _demand(text, {**raw, **top}, profile, added, str(path))
    write_whole(path, text.encode("utf-8"))
    return True


def _with_keys(text: str, header: int | None, added: Mapping[str, Any]) -> str:
    """Return the text with keys added after line ``header``, where they are valid whatever follows in the table."""
    lines = text.split("\n")
    at = header or 0
    end = _newline(text)[:-1]                # "\r" for CRLF line ends
    new = [f"{line}{end}" for line in _written(added)]
    if at == len(lines):                     # the header is the last line and has no line end
        lines[-1] += end
        new = [*new, ""]
    return "\n".join([*lines[:at], *new, *lines[at:]])


def _written(added: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in added.items()]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _demand(text: str, raw: dict[str, Any], profile: str, added: Mapping[str, Any], file: str) -> None:
    """Raise BadInput unless the new text contains exactly the old and the added keys."""
    old = raw.get("expect", {})
    wanted = {**raw, "expect": {**old, profile: {**old.get(profile, {}), **added}}}
    try:
        got = tomllib.loads(text)
    except ValueError:
        got = {}
    if got != wanted:
        hint = f"write its table as [expect.{toml_string(profile)}]"
        raise BadInput(f"cannot add expectations for {quoted(profile)}: the file writes them in an unusual form",
                       file=file, hint=hint)  # fmt: skip
