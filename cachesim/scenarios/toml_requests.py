"""What does a file ask of the server, step by step? The tables ``[[request]]`` and their checks."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, ParamSpec, TypeVar

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.engines.capabilities import Option
from cachesim.scenarios.notation import value_checks
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import ACTIONS, ROLES, Action, Asked, Pieces, joins
from cachesim.scenarios.notation.value_checks import file_name
from cachesim.scenarios.notation.word_lengths import size
from cachesim.scenarios.option_checks import manual_of, read_option
from cachesim.scenarios.toml_source import Key, TomlSource

# Has this table the right keys with the right types? Every complaint carries the file and the line.

P = ParamSpec("P")
T = TypeVar("T")


class TomlTable:
    """A table of the file, at ``path``. Readers take a default; None as default makes the key required."""

    def __init__(self, raw: Any, source: TomlSource, path: Key = ()) -> None:
        self.source, self.path = source, path
        if not isinstance(raw, dict):
            raise self.fault(f"{path[-1]} must be a table")
        self.raw: dict[str, Any] = raw

    def fault(self, cause: str, key: str = "", hint: str = "") -> BadInput:
        """The error to raise for ``key`` of this table, or for the table itself."""
        line = self.source.line_of((*self.path, key) if key else self.path)
        return BadInput(cause, file=self.source.file, line=line, hint=hint)

    def placed(self, key: str, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of ``check(...)``; what it finds wrong gets the place of ``key``."""
        try:
            return check(*args, **kwargs)
        except BadInput as bad:
            raise self.fault(bad.cause, key, bad.hint) from None

    def only(self, known: Iterable[str]) -> None:
        """Refuse a key that is not among ``known``."""
        allowed = list(known)
        for key in self.raw:
            if key not in allowed:
                raise self.fault(f"unknown key {quoted(key)}", key, nearest(key, allowed))

    def text(self, key: str, default: str | None = None) -> str:
        value = self.placed(key, value_checks.text, key, self._get(key, default))
        if default is None and not value.strip():
            raise self.fault(f"{cut(key)} must not be empty", key)
        return value

    def integer(self, key: str, default: int | None, low: int) -> int:
        return self.placed(key, value_checks.integer, key, self._get(key, default), low)

    def flag(self, key: str, default: bool) -> bool:
        return self.placed(key, value_checks.truth, key, self._get(key, default))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings with at least one entry, none of them empty."""
        found = self.items(key)
        if not found or not all(isinstance(value, str) and value.strip() for value in found):
            raise self.fault(f"{cut(key)} must be a list of strings with at least one entry", key)
        return tuple(found)

    def items(self, key: str) -> list[Any]:
        return self.placed(key, value_checks.items, key, self._get(key, None))

    def integers(self, key: str, value: Any) -> tuple[int, ...]:
        """``value``, found under ``key``, as non-negative integers."""
        return self.placed(key, value_checks.integers, key, value)

    def table(self, key: str) -> TomlTable:
        """The table below ``key``; an empty one where there is none."""
        return TomlTable(self.raw.get(key, {}), self.source, (*self.path, key))

    def tables(self, key: str) -> list[TomlTable]:
        """The list of tables ``[[key]]``, with at least one entry."""
        found = self._get(key, None)
        if not isinstance(found, list) or not found:
            raise self.fault(f"{cut(key)} must be written as [[{cut(key)}]], once for each", key)
        return [TomlTable(value, self.source, (*self.path, key, i)) for i, value in enumerate(found)]

    def _get(self, key: str, default: Any) -> Any:
        if key in self.raw:
            return self.raw[key]
        if default is None:
            raise self.fault(f"{cut(key)} is missing")
        return default


_COMPLETION = ("prompt", "chat", "answer", "answers", "n_predict", "cache_prompt", "id_slot", "why", *FLAGS)


def read_steps(tables: list[TomlTable], words: Mapping[str, int], engine: str) -> list[Asked | Action]:
    """All steps as they are written, for a server of this engine. Raises BadInput with the place of what is wrong."""
    steps: list[Asked | Action] = []
    saved: list[str] = []
    for table in tables:
        step = _action(table, saved, engine) if "do" in table.raw else _completion(table, words, engine)
        if isinstance(step, Asked) and step.together and not joins(step, steps):
            raise table.fault("together needs a request before it", "together")
        steps.append(step)
    return steps


def _action(table: TomlTable, saved: list[str], engine: str) -> Action:
    """A step that is no completion. ``saved``: files written so far, to which its own is added."""
    do = table.text("do")
    if do not in ACTIONS:
        raise table.fault(f"unknown action {quoted(do)}", "do", nearest(do, ACTIONS) or ", ".join(ACTIONS))
    takes = ACTIONS[do]
    table.only(("do", *takes, "why"))
    id_slot = table.integer("id_slot", None, low=0) if "id_slot" in takes else -1
    file = table.placed("file", file_name, table.text("file")) if "file" in takes else ""
    if do == "restore" and file not in saved:
        raise table.fault(f"file {quoted(file)} was not saved before", "file", nearest(file, saved))
    if do == "save":
        saved.append(file)
    return Action(do, id_slot, file, tuple(read_options(table.table("server"), engine).items()))


def read_options(table: TomlTable, engine: str) -> dict[str, Option]:
    """The server's options that a table sets, by our names; the server's spellings are taken too. Raises BadInput."""
    given: dict[str, Option] = {}
    for key, value in table.raw.items():
        name, checked = table.placed(key, read_option, key, value, engine)
        if name in given:
            raise table.fault(f"{name} is set twice", key)
        given[name] = checked
    return given


def _completion(table: TomlTable, words: Mapping[str, int], engine: str) -> Asked:
    raw, manual = table.raw, manual_of(engine)
    extra = [one.name for one in manual.fields]
    table.only((*_COMPLETION, *extra))  # before a key that is spelled wrong is missed
    # An engine may have an answer to an empty prompt.
    unsaid = "chat" in raw or (manual.empty_prompt and raw.get("prompt") == "")
    asked = Asked(
        prompt=() if unsaid else _pieces(table, "prompt", table.text("prompt"), words),
        answer=_pieces(table, "answer", table.text("answer"), words) if "answer" in raw else None,
        n_predict=table.integer("n_predict", None, low=-1) if "n_predict" in raw else None,
        cache_prompt=table.flag("cache_prompt", True), id_slot=table.integer("id_slot", -1, low=-1),
        answers=tuple(_pieces(table, "answers", text, words)
                      for text in (table.texts("answers") if "answers" in raw else ())),
        chat=_chat(table, words), extra=tuple(_checked(table, extra).items()),
    )
    flags = _checked(table, FLAGS)
    table.placed("after", check_after, flags)
    asked = asked._replace(**flags)
    if "chat" in raw and "prompt" in raw:
        raise table.fault("a request has a prompt or a chat, not both", "chat")
    wrong = next((key for key in ("cancel_after", "answers", "answer") if key in raw), "prompt")
    table.placed(wrong, check_asked, asked, words)
    return asked


def _checked(table: TomlTable, names: Iterable[str]) -> dict[str, Any]:
    """Those of the fields that a request has; none of them is a text, or has a sign in a line."""
    return {name: table.placed(name, check_flag, name, table.raw[name]) for name in names if name in table.raw}


def _chat(table: TomlTable, words: Mapping[str, int]) -> tuple[tuple[str, Pieces], ...]:
    """Messages, each written as its role and, behind a space, its words; a message may be empty."""
    if "chat" not in table.raw:
        return ()
    messages = []
    for text in table.texts("chat"):
        role, _, content = text.partition(" ")
        if role not in ROLES:
            raise table.fault(f"unknown role {quoted(role)}", "chat", nearest(role, ROLES) or ", ".join(ROLES))
        messages.append((role, _pieces(table, "chat", content, words) if content.strip() else ()))
    return tuple(messages)


def _pieces(table: TomlTable, key: str, text: str, words: Mapping[str, int]) -> Pieces:
    pieces = table.placed(key, parse_text, text)
    table.placed(key, size, pieces, words)
    return pieces
