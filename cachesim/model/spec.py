"""Layers of a model and their notation.

A layer is a letter of the table in ``layer_kinds.py``, followed by its numbers, if any, separated by points: the width
of a window or chunk, the number of rows that it chooses, the tokens of a compressed row. Spaces are optional. ``+M`` at
the end: the model has an MTP head. Examples: ``GGGA``, ``W32 A W32 A``, ``C C W32 C W32 C``, ``GGGA+M``, ``I48 I48``,
``W32 D4.32.12 D128.32``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Sequence

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.base.limits import LAYERS, WINDOW
from cachesim.model.layer_kinds import KINDS, Attention, Recurrence

LETTERS = f"layers are {', '.join(KINDS)}"

TRAINED_ON = 131_072
"""Training context of a model [tokens]: the default context of a server."""

_PIECE = re.compile(r"\s*(?:([A-Z])((?:\d+(?:\.\d+)*)?)|(\+M\s*$))")
_MEANING = {"window": "a window of", "chunk": "a chunk of", "count": "a number of rows from", "ratio": "a ratio of"}
_EXAMPLE = {"ratio": "4.8"}
MOST_RATIO = 1024


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer. ``kind``: a letter of the table; ``window``: the width of its window or chunk, 0 = none; ``count``: rows
    or blocks that a token chooses, 0 = it reads all; ``ratio``: tokens of a compressed row, 0 = there are none. The
    last three fields come from its row."""

    kind: str
    window: int = 0
    count: int = 0
    ratio: int = 0
    attention: Attention | None = field(init=False, repr=False, compare=False)
    recurrence: Recurrence | None = field(init=False, repr=False, compare=False)
    part: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInput(f"unknown kind of layer {quoted(self.kind)}", hint=_hint(self.kind))
        kind = KINDS[self.kind]
        attention, recurrence = kind.attention, kind.recurrence
        part = attention.part if attention else ""
        for name, value in (("attention", attention), ("recurrence", recurrence), ("part", part)):
            object.__setattr__(self, name, value)               # stored, because lookups on every access are too slow
        self._check(kind.numbers, kind.optional)
        if self.count % kind.unit:
            cause = f"a {self.kind} layer needs a multiple of {kind.unit} rows, not {self.count}"
            raise BadInput(cause, hint=f"for example {self.kind}{2 * kind.unit}")

    def _check(self, names: Sequence[str], optional: Sequence[str]) -> None:
        """Raise BadInput unless the layer has exactly the numbers of its kind, each in its range. ``optional``: numbers
        that it may leave out."""
        for name, least, most in (("window", 1, WINDOW.now), ("count", 1, WINDOW.now), ("ratio", 2, MOST_RATIO)):
            value = getattr(self, name)
            if name not in names:
                if value:
                    what = "window" if name == "window" else f"number {name}"
                    hint = f"W{value}?" if name == "window" else ""
                    raise BadInput(f"layer {self.kind} has no {what}, yet {value} is given", hint=hint)
            elif not least <= value <= most and (value or name not in optional):
                what = _MEANING["chunk" if name == "window" and self.part == "chunk" else name]
                cause = f"a {self.kind} layer needs {what} {least} to {most}, not {value}"
                raise BadInput(cause, hint=f"for example {self.kind}{_EXAMPLE.get(names[0], '8')}")

    @property
    def chunked(self) -> bool:
        """True if a token sees only tokens of its own chunk: positions 0 to window - 1, then the next."""
        return self.part == "chunk"

    @property
    def reach(self) -> int:
        """The window as a mask takes it: below 0 for a chunk."""
        return -self.window if self.chunked else self.window

    @property
    def notation(self) -> str:
        """Notation of the layer: ``A``, ``W8``, ``D4.32``."""
        numbers = [getattr(self, name) for name in KINDS[self.kind].numbers]
        while numbers and not numbers[-1]:
            numbers.pop()
        return self.kind + ".".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class Spec:
    """Layers of a model, from first to last. ``mtp``: an MTP head follows them."""

    layers: tuple[Layer, ...]
    mtp: bool = False

    @property
    def notation(self) -> str:
        """Notation of the model; ``parse`` is the inverse."""
        gap = " " if any(KINDS[layer.kind].numbers for layer in self.layers) else ""
        return gap.join(layer.notation for layer in self.layers) + ("+M" if self.mtp else "")

    def __str__(self) -> str:
        return self.notation


def parse(text: str) -> Spec:
    """Parse the notation of a model. Raise BadInput with the nearest valid letter."""
    layers: list[Layer] = []
    at = 0
    mtp = False
    end = len(text.rstrip())
    while at < end:
        piece = _PIECE.match(text, at)
        if piece is None:
            rest = text[at:].lstrip()
            column = len(text) - len(rest) + 1
            cause = f"model {quoted(text)}: {quoted(cut(rest.split()[0], 20))} at column {column} is not a layer"
            raise BadInput(cause, hint=_hint(rest))
        if piece[3]:
            mtp = True
        else:
            layers.append(_read_layer(text, piece[1], piece[2]))
        at = piece.end()
    if not layers:
        raise BadInput(f"model {quoted(text)} has no layers", hint="for example GGGA")
    LAYERS.check(len(layers), f"model {quoted(text)}")
    return Spec(tuple(layers), mtp)


def _read_layer(text: str, kind: str, digits: str) -> Layer:
    given = digits.split(".") if digits else []
    if long := next((one for one in given if len(one) > 7), ""):
        raise BadInput(f"model {quoted(text)}: window {long[:8]}... is too large", hint=f"at most {WINDOW.now}")
    names = KINDS[kind].numbers if kind in KINDS else ()
    if len(given) > max(1, len(names)):
        raise BadInput(f"model {quoted(text)}: a {kind} layer has {len(names) or 'no'} numbers, not {len(given)}")
    try:
        return Layer(kind, **{name: int(number) for name, number in zip(names or ("window",), given, strict=False)})
    except BadInput as bad:
        raise BadInput(f"model {quoted(text)}: {bad.cause}", hint=bad.hint) from None


def _hint(text: str) -> str:
    """Return the most likely intended letter."""
    if text.startswith("+"):
        return "the only suffix is +M, at the end"
    return nearest(text[:1].upper(), KINDS) or LETTERS
