"""Where in a line does something stand? Parts of its text that know their column, and say so of what is wrong."""

from __future__ import annotations

import re
from typing import Callable, Iterator, NamedTuple, ParamSpec, TypeVar

from cachesim.base.errors import BadInput

P = ParamSpec("P")
T = TypeVar("T")


class Misread(BadInput):
    """A part of a text that is not as it must be. Whoever read the whole text says where it stands."""

    def __init__(self, cause: str, hint: str, part: LinePart) -> None:
        super().__init__(cause, hint=hint)
        self.part = part

    def told(self) -> BadInput:
        """The error with its place; columns are counted from 1."""
        return BadInput(f"column {self.part.at + 1}, request {self.part.step}: {self.cause}", hint=self.hint)


class LinePart(NamedTuple):
    """A part of a line: its text, the column of its first sign (from 0), the step that it belongs to (from 0)."""

    text: str
    at: int = 0
    step: int = 0

    def stripped(self) -> LinePart:
        """Without the white space around it."""
        bare = self.text.lstrip()
        return self._replace(text=bare.rstrip(), at=self.at + len(self.text) - len(bare))

    def split(self, sign: str) -> Iterator[LinePart]:
        """What lies between the signs."""
        at = self.at
        for text in self.text.split(sign):
            yield self._replace(text=text, at=at)
            at += len(text) + len(sign)

    def words(self) -> Iterator[LinePart]:
        """What lies between stretches of white space."""
        return (self.group(match) for match in re.finditer(r"\S+", self.text))

    def partition(self, sign: str) -> tuple[LinePart, str, LinePart]:
        """What lies before the first such sign, the sign ("" = there is none), what lies behind it."""
        first, found, rest = self.text.partition(sign)
        return self._replace(text=first), found, self._replace(text=rest, at=self.at + len(first) + len(found))

    def group(self, match: re.Match[str], number: int = 0) -> LinePart:
        """A group of what was found in the text, an empty part where it was not found."""
        return self._replace(text=match[number] or "", at=self.at + max(match.start(number), 0))

    def fault(self, cause: str, hint: str = "") -> Misread:
        """The error to raise for this part."""
        return Misread(cause, hint, self)

    def placed(self, check: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The result of ``check(...)``; what it finds wrong is wrong with this part."""
        try:
            return check(*args, **kwargs)
        except BadInput as bad:
            raise self.fault(bad.cause, bad.hint) from None
