"""A picture in letters, for a terminal: one row of tokens for each request, and the memory beneath it. ASCII."""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.tools.picture.scene import Scene, StepRow

LETTERS = {"kept": "K", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g"}
WORDS = {"K": "kept", "R": "restored", "L": "loaded", "E": "evaluated, new", "!": "evaluated again", "g": "generated"}
MEMORY = {
    "=": "a row of attention", "~": "a row in the window", "o": "the state", "^": "a checkpoint (or entry) ends here",
}  # fmt: skip
LEFT, WIDTH = 14, 80


def drawing(scenes: Sequence[Scene]) -> str:
    """The scenes, one below the other, and what the signs mean."""
    lines: list[str] = []
    used: set[str] = set()
    for one in scenes:
        scale = -(-one.length // (WIDTH - LEFT))
        each = f", one sign for {scale} tokens" if scale > 1 else ""
        lines.append(f"{one.model} under {one.profile}: {one.verdict}{each}")
        for row in one.rows:
            for name, signs in _row(row, one.length, scale):
                used |= set(signs.removesuffix("  WRONG"))
                lines += [name, " " * LEFT + signs] if len(name) >= LEFT else [f"{name:{LEFT}}{signs}"]
        lines.append("")
    return "\n".join([*lines, *_legend(used)]) + "\n"


def _row(row: StepRow, length: int, scale: int) -> Iterator[tuple[str, str]]:
    """Tokens and memory of a request: a name and its signs each."""
    held, tokens = row.memory, [(part.start, part.stop, LETTERS[part.origin]) for part in row.stretches]
    yield f"#{row.number} {row.text}", _cells(length, scale, tokens) + "  WRONG" * row.wrong
    if held.rows is not None:
        yield "   rows", _cells(length, scale, [(*held.rows, "=")])
    if held.window is not None:
        yield "   window", _cells(length, scale, [(*held.window, "~")])
    if held.state is not None:
        yield "   state", _cells(length, scale, [(held.state - 1, held.state, "o")])
    if any(held.checkpoints):
        yield "   checkpoint", _cells(length, scale, [(end - 1, end, "^") for end in held.checkpoints if end])


def _cells(length: int, scale: int, marks: Sequence[tuple[int, int, str]]) -> str:
    signs = [" "] * -(-length // scale)
    for start, stop, sign in marks:
        for at in range(start // scale, -(-stop // scale)):
            signs[min(at, len(signs) - 1)] = sign
    return "".join(signs).rstrip()


def _legend(used: set[str]) -> list[str]:
    """The signs that occur, in as many lines as they need."""
    words = [f"{sign} {word}" for sign, word in {**WORDS, **MEMORY}.items() if sign in used]
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines.append("")
        lines[-1] += f"   {word}" if lines[-1] else word
    return lines
