"""Has a value from a JSON file the shape that a format demands? Shapes are functions that are built from each other.

A shape takes a value and raises Misfit if it is another; ``check`` makes one line of that, with the path to the place:
``steps[3].request.prompt[2]: a token is wanted, not 'x'``. The types are JSON's: true is no integer, nor is 1.0.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping

from cachesim.base.errors import BadInput, cut, nearest, quoted

Shape = Callable[[Any], None]
INT32, INT64 = 2**31 - 1, 2**63 - 1


_NOTHING = object()


class Misfit(Exception):
    """A value of another shape: what is wrong, and the path from the value looked at to the place."""

    def __init__(self, cause: str, hint: str = "", value: object = _NOTHING) -> None:
        super().__init__(cause)
        self._cause, self._value, self.hint, self.path = cause, value, hint, ""

    @property
    def cause(self) -> str:
        """What is wrong, with the value if there is one: it is written out only when it is told."""
        return self._cause if self._value is _NOTHING else f"{self._cause} is wanted, not {quoted(self._value)}"

    def within(self, step: str) -> Misfit:
        """The same one step further out: ``[3]``, ``.name``."""
        self.path = step + self.path
        return self


def check(value: Any, shape: Shape, file: str = "") -> None:
    """Raise BadInput, naming file and place, unless the value has the shape."""
    try:
        shape(value)
    except Misfit as misfit:
        place = misfit.path.removeprefix(".")
        cause = f"{place}: {misfit.cause}" if place else misfit.cause
        raise BadInput(cause, file=file, hint=misfit.hint) from None


def wanted(what: str, value: Any) -> Misfit:
    """The error for a value that is not ``what``."""
    return Misfit(what, value=value)


def anything(value: Any) -> None:
    """No demand."""


def flag(value: Any) -> None:
    """true or false."""
    if type(value) is not bool:
        raise wanted("true or false", value)


def text(value: Any) -> None:
    """A string."""
    if type(value) is not str:
        raise wanted("a string", value)


def number(value: Any) -> None:
    """A number, whole or not."""
    if type(value) is not float and (type(value) is not int or abs(value) > INT64):
        raise wanted("a number", value)


def integer(low: int = -INT64 - 1, high: int = INT64, what: str = "") -> Shape:
    """A whole number of that range, of 64 bits where none is said. ``what``: how messages call it."""
    told = what or f"an integer from {low} to {high}"

    def shape(value: Any) -> None:
        if type(value) is not int or not low <= value <= high:
            raise wanted(told, value)

    return shape


def one_of(*shapes: Shape) -> Shape:
    """Any of these shapes; a misfit is told as the last one tells it."""

    def shape(value: Any) -> None:
        for one in shapes[:-1]:
            try:
                return one(value)
            except Misfit:
                continue
        return shapes[-1](value)

    return shape


def optional(one: Shape) -> Shape:
    """The shape, or null."""

    def shape(value: Any) -> None:
        if value is not None:
            one(value)

    return shape


def each(shape: Shape, what: str = "a list") -> Shape:
    """A list, every entry of one shape."""

    def listed(value: Any) -> None:
        if type(value) is not list:
            raise wanted(what, value)
        for i, entry in enumerate(value):
            try:
                shape(entry)
            except Misfit as misfit:
                raise misfit.within(f"[{i}]") from None

    return listed


def integers(low: int, high: int, what: str) -> Shape:
    """A list of whole numbers of that range, looked at quickly: prompts are long. ``what`` is one of them."""
    slowly = each(integer(low, high, what), "a list")

    def shape(value: Any) -> None:
        whole = type(value) is list and set(map(type, value)) <= {int}
        if not whole or (value and not low <= min(value) <= max(value) <= high):
            slowly(value)

    return shape


def record(fields: Mapping[str, Shape], needs: Iterable[str] = (), others: Shape | None = None) -> Shape:
    """An object with these fields, of which it ``needs`` some. Unknown ones are refused, unless ``others`` is given."""
    known, demanded = dict(fields), tuple(needs)

    def shape(value: Any) -> None:
        if type(value) is not dict:
            raise wanted("an object", value)
        for name in demanded:
            if name not in value:
                raise Misfit(f"no '{name}'")
        for name, inner in value.items():
            one = known.get(name, others)
            if one is None:
                raise Misfit(f"unknown key {quoted(name)}", nearest(name, known))
            try:
                one(inner)
            except Misfit as misfit:
                raise misfit.within(f".{cut(name)}") from None

    return shape
