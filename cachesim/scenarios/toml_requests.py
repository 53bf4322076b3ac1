"""Reader of the tables ``[[request]]`` of a scenario file. Every error carries the file and the line."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, ParamSpec, TypeVar

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.engines.capabilities import Option
from cachesim.scenarios.notation import value_checks
from cachesim.scenarios.notation.flags import FLAGS, check_after, check_flag
from cachesim.scenarios.notation.normalise import check_asked
from cachesim.scenarios.notation.parse import parse_text
from cachesim.scenarios.notation.tree import ACTIONS, ROLES, Action, LineRequest, Pieces, joins
from cachesim.scenarios.notation.value_checks import file_name
from cachesim.scenarios.notation.word_lengths import size
from cachesim.scenarios.option_checks import manual_of, read_option
from cachesim.scenarios.toml_source import Key, TomlSource

P = ParamSpec("P")
T = TypeVar("T")


class TomlTable:
    """A table of the file, at ``path``. Readers take a default value; default None makes the key mandatory."""

    def __init__(self, raw: Any, source: TomlSource, path: Key = ()) -> None:
        self.source, self.path = source, path
        if not isinstance(raw, dict):
            raise self.fault(f"{path[-1]} must be a table")
        self.raw: dict[str, Any] = raw

    def fault(self, cause: str, key: str = "", hint: str = "") -> BadInput:
        """Return the error for ``key`` of this table, or for the table itself, with its line."""
        line = self.source.line_of((*self.path, key))
        return BadInput(cause, file=self.source.file, line=line, hint=hint)

    def placed(self, key: str, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return ``check(*args, **kwargs)``; add the line of ``key`` to a BadInput that it raises."""
        try:
            return check(*args, **kwargs)
        except BadInput as bad:
            raise self.fault(bad.cause, key, bad.hint) from None

    def only(self, known: Iterable[str]) -> None:
        """Raise BadInput for a key that is not in ``known``."""
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
        """Return a list of at least 1 string, all of them non-empty. Raise BadInput."""
        found = self.items(key)
        if not found or not all(isinstance(value, str) and value.strip() for value in found):
            raise self.fault(f"{cut(key)} must be a list of strings with at least one entry", key)
        return tuple(found)

    def items(self, key: str) -> list[Any]:
        return self.placed(key, value_checks.items, key, self._get(key, None))

    def integers(self, key: str, value: Any) -> tuple[int, ...]:
        """Check that ``value``, found under ``key``, is a list of non-negative integers, and return it."""
        return self.placed(key, value_checks.integers, key, value)

    def table(self, key: str) -> TomlTable:
        """Return the table ``key``, an empty table if it is missing."""
        return TomlTable(self.raw.get(key, {}), self.source, (*self.path, key))

    def tables(self, key: str) -> list[TomlTable]:
        """Return the tables ``[[key]]``, at least 1. Raise BadInput."""
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


def read_steps(tables: list[TomlTable], words: Mapping[str, int], engine: str) -> list[LineRequest | Action]:
    """Return all steps as written in the file, checked for this engine. Raise BadInput with file and line."""
    steps: list[LineRequest | Action] = []
    saved: list[str] = []
    for table in tables:
        step = _action(table, saved, engine) if "do" in table.raw else _completion(table, words, engine)
        if isinstance(step, LineRequest) and step.together and not joins(step, steps):
            raise table.fault("together needs a request before it", "together")
        steps.append(step)
    return steps


def _action(table: TomlTable, saved: list[str], engine: str) -> Action:
    """Return a step that is not a completion. ``saved``: slot files written so far; a save adds its file."""
    do = table.text("do")
    if do not in ACTIONS:
        raise table.fault(f"unknown server action {quoted(do)}", "do", nearest(do, ACTIONS) or ", ".join(ACTIONS))
    takes = ACTIONS[do]
    table.only(("do", *takes, "why"))
    id_slot = table.integer("id_slot", None, low=0) if "id_slot" in takes else -1
    file = table.placed("file", file_name, table.text("file")) if "file" in takes else ""
    if do == "restore" and file not in saved:
        raise table.fault(f"file {quoted(file)} was not saved before", "file", nearest(file, saved))
    if do == "save":
        saved.append(file)
    percent = table.placed("percent", value_checks.share, table.raw.get("percent", 100))
    scales = table.text("scales") if "scales" in takes else ""
    return Action(do, id_slot, file, tuple(read_options(table.table("server"), engine).items()), percent, scales)


def read_options(table: TomlTable, engine: str) -> dict[str, Option]:
    """Return the server options of a table by cachesim's names. Accepts the server's spellings too. Raise BadInput."""
    given: dict[str, Option] = {}
    for key, value in table.raw.items():
        name, checked = table.placed(key, read_option, key, value, engine)
        if name in given:
            raise table.fault(f"{name} is set twice", key)
        given[name] = checked
    return given


def _completion(table: TomlTable, words: Mapping[str, int], engine: str) -> LineRequest:
    raw, manual = table.raw, manual_of(engine)
    extra = [declared.name for declared in manual.fields]
    table.only((*_COMPLETION, *extra))  # first, so that a misspelled key is reported before it is reported missing
    # Some engines answer an empty prompt.
    unsaid = "chat" in raw or (manual.empty_prompt and raw.get("prompt") == "")
    asked = LineRequest(
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
    """Return the given fields of a request, checked; for fields that are neither texts nor signs of the notation."""
    return {name: table.placed(name, check_flag, name, table.raw[name]) for name in names if name in table.raw}


def _chat(table: TomlTable, words: Mapping[str, int]) -> tuple[tuple[str, Pieces], ...]:
    """Return the messages of a chat. Each is written as its role, a space and its words; a message may be empty."""
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
