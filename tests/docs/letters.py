"""Pictures in ASCII for a terminal: a row of tokens for each request, with the memory below it."""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.tools.picture.scene import Scene, StepRow

LETTERS = {"kept": "K", "restored": "R", "loaded": "L", "evaluated": "E", "again": "!", "generated": "g"}
WORDS = {"K": "kept", "R": "restored", "L": "loaded", "E": "evaluated, new", "!": "evaluated again", "g": "generated"}
MEMORY = {
    "=": "a row of attention", "~": "a row in the window", "i": "an index row",
    "c": "a compressed row ends here", "o": "the state", "^": "a checkpoint (or entry) ends here",
}  # fmt: skip
LEFT, WIDTH = 14, 80


def drawing(scenes: Sequence[Scene]) -> str:
    """Return the scenes, below each other, and a legend."""
    lines: list[str] = []
    used: set[str] = set()
    for view in scenes:
        scale = -(-view.length // (WIDTH - LEFT))
        each = f", one sign for {scale} tokens" if scale > 1 else ""
        lines.append(f"{view.model} under {view.profile}: {view.verdict}{each}")
        for row in view.rows:
            for name, signs in _row(row, view.length, scale):
                used |= set(signs.removesuffix("  WRONG"))
                lines += [name, " " * LEFT + signs] if len(name) >= LEFT else [f"{name:{LEFT}}{signs}"]
        lines.append("")
    return "\n".join([*lines, *_legend(used)]) + "\n"


def _row(row: StepRow, length: int, scale: int) -> Iterator[tuple[str, str]]:
    """Yield name and characters of the tokens and the memory of a request."""
    held, tokens = row.memory, [(part.start, part.stop, LETTERS[part.origin]) for part in row.stretches]
    yield f"#{row.number} {row.text}", _cells(length, scale, tokens) + "  WRONG" * row.is_wrong
    if held.rows is not None:
        yield "   rows", _cells(length, scale, [(*held.rows, "=")])
    if held.window is not None:
        yield "   window", _cells(length, scale, [(*held.window, "~")])
    if held.index_rows is not None:
        yield "   index", _cells(length, scale, [(*held.index_rows, "i")])
    for ratio, count in held.compressed:
        ends = [n * ratio for n in range(1, count + 1)]
        yield f"   1 per {ratio}", _cells(length, scale, [(end - 1, end, "c") for end in ends])
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
    """Return the legend of the characters that occur, wrapped."""
    words = [f"{sign} {word}" for sign, word in {**WORDS, **MEMORY}.items() if sign in used]
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) + 3 > WIDTH:
            lines.append("")
        lines[-1] += f"   {word}" if lines[-1] else word
    return lines
