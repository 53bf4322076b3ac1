"""Has this table the right keys with the right types? Every complaint carries the file and the line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.scenarios.notation import values
from cachesim.scenarios.toml_source import Key, TomlSource

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
        value = self.placed(key, values.text, key, self._get(key, default))
        if default is None and not value.strip():
            raise self.fault(f"{cut(key)} must not be empty", key)
        return value

    def integer(self, key: str, default: int | None, low: int) -> int:
        return self.placed(key, values.integer, key, self._get(key, default), low)

    def flag(self, key: str, default: bool) -> bool:
        return self.placed(key, values.truth, key, self._get(key, default))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings with at least one entry, none of them empty."""
        found = self.items(key)
        if not found or not all(isinstance(value, str) and value.strip() for value in found):
            raise self.fault(f"{cut(key)} must be a list of strings with at least one entry", key)
        return tuple(found)

    def items(self, key: str) -> list[Any]:
        return self.placed(key, values.items, key, self._get(key, None))

    def integers(self, key: str, value: Any) -> tuple[int, ...]:
        """``value``, found under ``key``, as non-negative integers."""
        return self.placed(key, values.integers, key, value)

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
