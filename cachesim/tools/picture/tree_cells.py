"""The radix tree after each request: a box for each node, below the positions of its tokens, with rows, window, state
and locks."""

from __future__ import annotations

from typing import Iterator, Mapping, Sequence

from cachesim.base.errors import counted
from cachesim.base.escaping import markup
from cachesim.engines.inspection import TreeCell
from cachesim.tools.picture.position_scale import PositionScale, text

HIGH, LINE = 20, 26                  # pixels of a box, and from a line of boxes to the next
SHOWN = 32                           # leaves that are drawn after each request, at most
Tree = Sequence[TreeCell]


def says(cell: TreeCell) -> str:
    """Return the description of a node."""
    where = f"node {cell.id}: tokens {cell.start} to {cell.end - 1}"
    parts = "has " + ", ".join(cell.held)
    lacks = f"; tombstone of its {' and '.join(cell.lacks)}" if cell.lacks else ""
    use = f"; locked by {counted(cell.locks, 'request')}" if cell.locks else "; not locked"
    return f"{where}; {parts}{lacks}{use}"


def lines(tree: Tree) -> list[tuple[int, TreeCell]]:
    """Return the nodes with the number of their line: each leaf begins a line, and a node stands in the line of its
    first child."""
    children: dict[int, list[TreeCell]] = {}
    for cell in tree:
        children.setdefault(cell.parent, []).append(cell)
    found, line = list[tuple[int, TreeCell]](), 0
    todo = [*reversed(children.get(0, []))]
    while todo:
        cell = todo.pop()
        found.append((line, cell))
        below = children.get(cell.id, [])
        todo += reversed(below)
        line += not below
    return found


def draw_trees(after: Mapping[int, Tree], scale: PositionScale, y: float) -> tuple[str, float]:
    """Return the boxes below a drawing from ``y`` on, and their height; "" and 0 without nodes."""
    if not any(after.values()):
        return "", 0.0
    out, top = [text(12, y + 14, "nodes of the tree after each request", "letter start")], y + 28
    for number, tree in after.items():
        placed = lines(tree)
        high = 1 + max((line for line, _ in placed[-1:]), default=0)
        out.append(text(12, top + 15, f"#{number}"))
        ends = {0: (0, 0.0)}
        for line, cell in placed:
            if line < SHOWN:
                out += _box(cell, scale, top + line * LINE)
                at, x = ends[cell.parent]
                if at != line and x:                       # a further child: a line from its parent's end
                    out.append(f'<path class="thin" d="M{x:g} {top + at * LINE + HIGH:g}V{top + line * LINE + 10:g}"/>')
            ends[cell.id] = line, scale.px(cell.end)
        rest = high - SHOWN
        out += [text(12, top + 28, counted(rest, "more branch", "more branches"), "dim")] if rest > 0 else []
        top += LINE * min(high, SHOWN) + 8
    return f'<g class="pool">{"".join(out)}</g>', top + 4 - y


def _box(cell: TreeCell, scale: PositionScale, y: float) -> Iterator[str]:
    x, end = scale.px(cell.start), scale.px(cell.end)
    kind = "used" if cell.locks else "empty" if "window" in cell.lacks else "cached"
    yield f"<g><title>{markup(says(cell))}</title>"
    yield f'<rect class="cell {kind}" x="{x + 1:g}" y="{y:g}" width="{max(end - x - 2, 2):g}" height="{HIGH}"/>'
    if end - x > 30:
        yield text(x + 4, y + 14, f"{cell.end - cell.start}" + (f" x{cell.locks}" if cell.locks else ""), "small")
    if "window" in cell.held:
        yield f'<path class="win" d="M{x + 3:g} {y + HIGH - 3:g}H{end - 3:g}"/>'
    if "state" in cell.held:
        yield f'<circle class="dot" cx="{end - 6:g}" cy="{y + 8:g}" r="4"/>'
    yield "</g>"


def tree_signs(after: Mapping[int, Tree]) -> Iterator[tuple[bool, str, str, str]]:
    """Yield rows of the legend: whether the sign occurs, its meaning, class and SVG."""
    cells = [cell for tree in after.values() for cell in tree]
    box = '<rect class="cell {}" x="1" y="1" width="22" height="12"/>'
    rows = (
        (any(cell.locks for cell in cells), "node that requests lock: tokens, requests", box.format("used")),
        (any(not cell.locks for cell in cells), "node without a lock: its tokens", box.format("cached")),
        (any("window" in cell.lacks for cell in cells), "tombstone: its window was freed", box.format("empty")),
        (any("window" in cell.held for cell in cells), "window of a node", '<path class="win" d="M1 10H23"/>'),
        (any("state" in cell.held for cell in cells), "state at the end of a node",
         '<circle class="dot" cx="12" cy="7" r="4"/>'),
    )  # fmt: skip
    yield from ((shown, meaning, "dim", svg) for shown, meaning, svg in rows)
