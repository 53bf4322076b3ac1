"""Layers of a model and their notation.

A layer is a letter of the table in ``layer_kinds.py``, followed by the width of its window or chunk, if any; spaces
are optional. ``+M`` at the end: the model has an MTP head. Examples: ``GGGA``, ``W32 A W32 A``, ``C C W32 C W32 C``,
``GGGA+M``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cachesim.base.errors import BadInput, cut, nearest, quoted
from cachesim.base.limits import LAYERS, WINDOW
from cachesim.model.layer_kinds import KINDS, Attention, Recurrence

LETTERS = f"layers are {', '.join(KINDS)}"

TRAINED_ON = 131_072
"""Training context of a model [tokens]: the default context of a server."""

_PIECE = re.compile(r"\s*(?:([A-Z])(\d*)|(\+M\s*$))")


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer. ``kind``: a letter of the table; ``window``: the width of its window or chunk, 0 = none; the last three
    fields come from its row."""

    kind: str
    window: int = 0
    attention: Attention | None = field(init=False, repr=False, compare=False)
    recurrence: Recurrence | None = field(init=False, repr=False, compare=False)
    part: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadInput(f"unknown kind of layer {quoted(self.kind)}", hint=_hint(self.kind))
        _, _, attention, recurrence = KINDS[self.kind]
        part = attention.part if attention else ""
        for name, value in (("attention", attention), ("recurrence", recurrence), ("part", part)):
            object.__setattr__(self, name, value)               # stored, because lookups on every access are too slow
        if part in ("swa", "chunk") and not 0 < self.window <= WINDOW.now:
            what = "window" if part == "swa" else "chunk"
            cause = f"a {self.kind} layer needs a {what} of 1 to {WINDOW.now}, not {self.window}"
            raise BadInput(cause, hint=f"for example {self.kind}8")
        if part not in ("swa", "chunk") and self.window:
            raise BadInput(f"layer {self.kind} has no window, yet {self.window} is given", hint=f"W{self.window}?")

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
        """Notation of the layer: ``A``, ``W8``."""
        return f"{self.kind}{self.window}" if self.window else self.kind


@dataclass(frozen=True, slots=True)
class Spec:
    """Layers of a model, from first to last. ``mtp``: an MTP head follows them."""

    layers: tuple[Layer, ...]
    mtp: bool = False

    @property
    def notation(self) -> str:
        """Notation of the model; ``parse`` is the inverse."""
        gap = " " if any(layer.window for layer in self.layers) else ""
        return gap.join(layer.notation for layer in self.layers) + ("+M" if self.mtp else "")

    def __str__(self) -> str:
        return self.notation


def parse(text: str) -> Spec:
    """Parse the notation of a model. Raise BadInput with the nearest valid letter."""
    layers: list[Layer] = []
    at, mtp, end = 0, False, len(text.rstrip())
    while at < end:
        piece = _PIECE.match(text, at)
        if piece is None:
            cause = f"model {quoted(text)}: {quoted(cut(text[at:].split()[0], 20))} at column {at + 1} is not a layer"
            raise BadInput(cause, hint=_hint(text[at:]))
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
    if len(digits) > 7:
        raise BadInput(f"model {quoted(text)}: window {digits[:8]}... is too large", hint=f"at most {WINDOW.now}")
    try:
        return Layer(kind, int(digits or 0))
    except BadInput as bad:
        raise BadInput(f"model {quoted(text)}: {bad.cause}", hint=bad.hint) from None


def _hint(text: str) -> str:
    """Return the most likely intended letter."""
    word = text.strip()
    if word[:1] == "+":
        return "the only suffix is +M, at the end"
    return nearest(word[:1].upper(), KINDS) or LETTERS
