"""How is a count written? One checkpoint, two checkpoints."""

from __future__ import annotations


def counted(n: int, one: str, more: str = "") -> str:
    """``n`` and what is counted: ``one`` of them, or ``more`` of them (the same with an s where nothing is said)."""
    return f"{n} {one if n == 1 else more or one + 's'}"
