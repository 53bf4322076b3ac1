"""Blocks of a shared pool after each request: a cell for each block, with key, owner, users, place in the free list."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import markup
from cachesim.engines.inspection import BlockCell
from cachesim.tools.picture.position_scale import text

WIDE, HIGH, LINE = 66, 34, 46         # pixels of a cell, and from a line of cells to the next
SHOWN = 48                            # blocks that are drawn after each request, at most
Cells = Sequence[BlockCell]


def used(cells: Cells) -> list[BlockCell]:
    """Return the blocks that a request took, or that have a key."""
    return [cell for cell in cells if cell.owner >= 0 or cell.keys or cell.refs]


def says(cell: BlockCell) -> str:
    """Return the description of a block."""
    key = f"key of {cell.tokens} tokens, group {cell.group}" if cell.keys else "no key"
    more = f" and {counted(cell.keys - 1, 'more key')}" if cell.keys > 1 else ""
    use = f"used by {counted(cell.refs, 'request')}" if cell.refs else f"free, number {cell.place + 1} to be taken"
    return f"block {cell.id}: {key}{more}; taken by request {cell.owner}; {use}"


def draw_blocks(after: Mapping[int, Cells], x: float, y: float, wide: float) -> tuple[str, float]:
    """Return the cells below a drawing from ``y`` on, and their height; "" and 0 without blocks."""
    if not any(map(used, after.values())):
        return "", 0.0
    each = max(1, int((wide - x) // WIDE))
    out, top = [text(12, y + 14, "blocks of the pool after each request", "letter start")], y + 28
    for number, cells in after.items():
        known = used(cells)
        out.append(text(12, top + 20, f"#{number}"))
        out += (_cell(cell, x + at % each * WIDE, top + at // each * LINE) for at, cell in enumerate(known[:SHOWN]))
        lines = -(-max(1, len(known[:SHOWN])) // each)
        rest = len(known) - SHOWN
        more = f"{counted(rest, 'more block')}" if rest > 0 else ""
        out.append(text(12, top + 34, more, "dim"))
        top += LINE * lines
    return f'<g class="pool">{"".join(out)}</g>', top + 8 - y


def _cell(cell: BlockCell, x: float, y: float) -> str:
    kind = "used" if cell.refs else "cached" if cell.keys else "empty"
    box = f'<rect class="cell {kind}" x="{x:g}" y="{y:g}" width="{WIDE - 4}" height="{HIGH}"/>'
    key = text(x + WIDE / 2 - 2, y + 13, f"{cell.tokens}" if cell.keys else "-", "mid")
    owner = text(x + 3, y + 28, f"#{cell.owner}", "small")
    state = f"x{cell.refs}" if cell.refs else f"{cell.place + 1}."
    group = text(x + 3, y + 13, "abcdefghijklmnopqrstuvwxyz"[cell.group % 26], "small dim") if cell.keys else ""
    sign = text(x + WIDE - 7, y + 28, state, "small end")
    return f"<g><title>{markup(says(cell))}</title>{box}{group}{key}{owner}{sign}</g>"


def cell_sign(refs: int, keys: int) -> str:
    """Return a cell for the legend."""
    kind = "used" if refs else "cached" if keys else "empty"
    return f'<rect class="cell {kind}" x="1" y="1" width="22" height="12"/>'


def cell_signs(after: Mapping[int, Cells]) -> Iterator[tuple[bool, str, str, str]]:
    """Yield rows of the legend: whether the sign occurs, its meaning, class and SVG."""
    cells = [cell for each in after.values() for cell in used(each)]
    rows = (
        (any(cell.refs for cell in cells), "block in use: group, tokens of its key, owner, users", cell_sign(1, 1)),
        (any(not cell.refs and cell.keys for cell in cells), "free, can be found: place in the free list (1. is next)",
         cell_sign(0, 1)),
        (any(not cell.refs and not cell.keys for cell in cells), "free, without a key", cell_sign(0, 0)),
    )  # fmt: skip
    yield from ((shown, meaning, "dim", svg) for shown, meaning, svg in rows)
