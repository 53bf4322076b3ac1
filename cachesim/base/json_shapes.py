"""Composable validators ("shapes") for values from JSON files.

A shape is a function that raises Misfit if the value does not match. ``check`` turns a Misfit into a single-line error
with the path: ``steps[3].request.prompt[2]: expected a token, found 'x'``. JSON types are strict: neither true nor 1.0
is accepted as an integer.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from cachesim.base.errors import BadInput, cut, nearest, quoted

Shape = Callable[[Any], None]
INT32, INT64 = 2**31 - 1, 2**63 - 1


_NOTHING = object()


class ShapeMismatch(Exception):
    """Mismatch between a value and a shape, with the path from the checked value to the place of the mismatch."""

    def __init__(self, cause: str, hint: str = "", value: object = _NOTHING) -> None:
        self._cause = cause
        self._value = value
        self.hint = hint
        self.path = ""

    @property
    def cause(self) -> str:
        """Cause of the mismatch, with the value. Formatted on demand, because many a Misfit is dropped."""
        return self._cause if self._value is _NOTHING else f"expected {self._cause}, found {quoted(self._value)}"

    def within(self, step: str) -> ShapeMismatch:
        """Prepend a step to the path, ``[3]`` or ``.name``, and return this error."""
        self.path = step + self.path
        return self


def check(value: Any, shape: Shape, file: str = "") -> None:
    """Raise BadInput with file and path unless the value has the shape."""
    try:
        shape(value)
    except ShapeMismatch as misfit:
        place = misfit.path.removeprefix(".")
        cause = f"{place}: {misfit.cause}" if place else misfit.cause
        raise BadInput(cause, file=file, hint=misfit.hint) from None


def wanted(what: str, value: Any) -> ShapeMismatch:
    """Return the error for a value that is not ``what``, a noun with its article."""
    return ShapeMismatch(what, value=value)


def anything(value: Any) -> None:
    """Accept every value."""


def flag(value: Any) -> None:
    """Accept true and false."""
    if type(value) is not bool:
        raise wanted("true or false", value)


def text(value: Any) -> None:
    """Accept a string."""
    if type(value) is not str:
        raise wanted("a string", value)


def number(value: Any) -> None:
    """Accept an integer of 64 bits or a float."""
    if type(value) is not float and (type(value) is not int or abs(value) > INT64):
        raise wanted("a number", value)


def integer(low: int = -INT64 - 1, high: int = INT64, what: str = "") -> Shape:
    """Return a shape for integers from ``low`` to ``high`` (default: 64 bits). ``what``: its name in messages."""
    name = what or f"an integer from {low} to {high}"

    def shape(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise wanted(name, value)

    return shape


def one_of(*shapes: Shape) -> Shape:
    """Return a shape that accepts whatever any of ``shapes`` accepts. The last of them raises the error."""

    def shape(value: Any) -> None:
        for inner in shapes[:-1]:
            try:
                return inner(value)
            except ShapeMismatch:
                continue
        return shapes[-1](value)

    return shape


def optional(inner: Shape) -> Shape:
    """Return a shape that also accepts null."""

    def shape(value: Any) -> None:
        if value is not None:
            inner(value)

    return shape


def each(shape: Shape, what: str = "a list") -> Shape:
    """Return a shape for lists whose entries all have ``shape``. ``what``: name of the list in messages."""

    def listed(value: Any) -> None:
        if type(value) is not list:
            raise wanted(what, value)
        for i, entry in enumerate(value):
            try:
                shape(entry)
            except ShapeMismatch as misfit:
                raise misfit.within(f"[{i}]") from None

    return listed


def integers(low: int, high: int, what: str) -> Shape:
    """Return a shape for lists of integers from ``low`` to ``high``, optimised for long prompts. ``what``: name of an
    entry in messages."""
    slowly = each(integer(low, high, what), "a list")

    def shape(value: Any) -> None:
        whole = type(value) is list and set(map(type, value)) <= {int}
        if not whole or (value and not low <= min(value) <= max(value) <= high):
            slowly(value)

    return shape


def record(fields: Mapping[str, Shape], needs: Iterable[str] = (), others: Shape | None = None) -> Shape:
    """Return a shape for objects with these fields. ``needs``: mandatory fields. ``others``: shape of fields that are
    not listed; without it they are errors."""
    known, demanded = dict(fields), tuple(needs)

    def shape(value: Any) -> None:
        if type(value) is not dict:
            raise wanted("an object", value)
        for name in demanded:
            if name not in value:
                raise ShapeMismatch(f"missing key '{name}'")
        for name, inner in value.items():
            expected = known.get(name, others)
            if expected is None:
                raise ShapeMismatch(f"unknown key {quoted(name)}", nearest(name, known))
            try:
                expected(inner)
            except ShapeMismatch as misfit:
                raise misfit.within(f".{cut(name)}") from None

    return shape
