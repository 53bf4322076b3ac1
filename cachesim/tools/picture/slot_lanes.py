"""Lanes at the left of a drawing: a column for each slot with its requests, and a column for the prompt cache with its
entries, from the request that saved each to the request that removed it."""

from __future__ import annotations

from typing import Iterator, NamedTuple, Sequence

from cachesim.base.escaping import markup
from cachesim.tools.picture.position_scale import BAR, STEP, TOP, label, text
from cachesim.tools.picture.scene import Scene, StepRow

MOST = 8                     # maximum number of slots with separate lanes; more share a lane
SHOWN = 8                    # maximum number of entries side by side
LANE, BOX = 32.0, 11.0


class Entry(NamedTuple):
    """A prompt cache entry as drawn. Rows are those of the picture, one per request, counted from 0."""

    column: int                 # in the prompt cache lane, counted from 0
    tokens: int                 # length
    born: int                   # row of the request that saved it
    gone: int | None            # row of the request that removed it; None = it still exists at the end
    is_consumed: bool              # removed because a slot loaded it


class Columns:
    """Columns of cache entries; a new entry takes the first free column. Entries are identified by their lengths."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[int, int]] = {}          # column -> length in tokens, when it was added

    def save(self, tokens: int, when: int) -> None:
        """Add an entry."""
        free = next(column for column in range(len(self.held) + 1) if column not in self.held)
        self.held[free] = tokens, when

    def take(self, tokens: int) -> tuple[int, int] | None:
        """Remove the oldest entry of this length. Return its column and when it was added, or None."""
        mine = [(when, column) for column, (length, when) in self.held.items() if length == tokens]
        if not mine:
            return None
        when, column = min(mine)
        del self.held[column]
        return column, when


def lives(rows: Sequence[StepRow]) -> list[Entry]:
    """Return every entry that existed after a request."""
    columns, out = Columns(), list[Entry]()
    for index, row in enumerate(rows):
        for tokens in row.entries.saved:
            columns.save(tokens, index)
        for tokens in row.entries.gone:
            if (found := columns.take(tokens)) is not None:
                out.append(Entry(found[0], tokens, found[1], index, row.entries.is_consumed))
    out += [Entry(column, tokens, born, None, False) for column, (tokens, born) in columns.held.items()]
    return sorted(out)


class Lanes:
    """Positions of the lanes in pixels. ``names``: right end of the request labels. ``left``: left end of the tokens.
    ``stores``: True if there is a lane for the prompt cache, whose contents a recording does not show.
    ``heading``: of the lanes, "" for a server without slots, whose requests share a lane."""

    def __init__(self, scene: Scene) -> None:
        self.slots = sorted({row.slot for row in scene.rows if row.slot >= 0})
        self.shared = len(self.slots) > MOST or scene.has_pool
        self.count = 1 if self.shared else max(1, len(self.slots))
        self.lives = lives(scene.rows)
        wide = min(SHOWN, 1 + max((entry.column for entry in self.lives), default=0))
        self.more = any(entry.column >= SHOWN for entry in self.lives)
        letters = max((len(line) for row in scene.rows for line in label(row.number, row.text)), default=0)
        self.names = round(max(24 + 7.25 * letters, 52.0))
        self.cache = self.names + self.count * LANE + 6
        self.stores = not (scene.has_pool or scene.is_recorded)
        self.heading = "" if scene.has_pool else "slot"
        self.width = (max(50.0, wide * BOX + 8) + 34 * self.more) * self.stores
        self.left = self.cache + self.width + 14

    def slot(self, number: int) -> float:
        """Return the x of the middle of a slot's lane."""
        lane = 0 if self.shared or number not in self.slots else self.slots.index(number)
        return self.names + lane * LANE + (LANE - 4) / 2

    def entry(self, column: int) -> float:
        """Return the x of the left edge of an entry's box."""
        return self.cache + 5 + column * BOX

    def gone_at(self, index: int) -> float | None:
        """Return the x of the middle of the box of the first entry removed in this row, None if none was."""
        went = [entry.column for entry in self.lives if entry.gone == index and entry.column < SHOWN]
        return self.entry(went[0]) + 4 if went else None


def bands(lanes: Lanes, scene: Scene, top: float) -> Iterator[str]:
    """Yield SVG elements: the backgrounds of the lanes, and a line through the requests of each slot."""
    high = TOP - 50 + len(scene.rows) * STEP
    for lane in range(lanes.count):
        x = lanes.names + lane * LANE
        yield f'<rect class="lane" x="{x:g}" y="{top + 46:g}" width="{LANE - 4:g}" height="{high:g}"/>'
        mine = [index for index, row in enumerate(scene.rows)
                if row.slot >= 0 and (lanes.shared or row.slot == lanes.slots[lane])]  # fmt: skip
        if len(mine) > 1:
            first, last = (top + TOP + index * STEP + BAR / 2 for index in (mine[0], mine[-1]))
            yield f'<path class="thread" d="M{x + (LANE - 4) / 2:g} {first:g}V{last:g}"/>'
    if lanes.stores:
        box = f'x="{lanes.cache:g}" y="{top + 46:g}" width="{lanes.width:g}" height="{high:g}"'
        yield f'<rect class="lane" {box}/>'


def headings(lanes: Lanes, top: float) -> Iterator[str]:
    """Yield SVG elements: the names of the lanes."""
    yield text(lanes.names, top + 60, lanes.heading, "start")
    for lane in range(lanes.count):
        name = "" if not lanes.heading else "all" if lanes.shared else str(lanes.slots[lane]) if lanes.slots else ""
        yield text(lanes.names + lane * LANE + (LANE - 4) / 2, top + 76, name, "mid")
    if lanes.stores:
        yield text(lanes.cache + 3, top + 60, "prompt") + text(lanes.cache + 3, top + 76, "cache")


def block(lanes: Lanes, row: StepRow, y: float) -> Iterator[str]:
    """Yield SVG elements: the box of a request, with its number, in the lane of its slot."""
    if row.slot < 0:
        return
    x = lanes.slot(row.slot)
    red = " red" * row.is_wrong
    yield f'<rect class="block{red}" x="{x - 13:g}" y="{y:g}" width="26" height="{BAR}" rx="4"/>'
    yield text(x, y + 15, str(row.number), "num")


def stored(lanes: Lanes, scene: Scene, top: float) -> Iterator[str]:
    """Yield SVG elements of the prompt cache entries: a full box where an entry is saved, a line while it exists, a
    dashed box where it is removed. An arrow leads from an entry removed on load to the slot that loaded it."""
    for entry in lanes.lives:
        if entry.column < SHOWN:
            yield from _life(lanes, scene, entry, top + TOP)
    for index, row in enumerate(scene.rows):
        if (hidden := len(row.entries.lengths) - SHOWN) > 0:
            yield text(lanes.cache + lanes.width - 3, top + TOP + index * STEP + 15, f"+{hidden}", "dim end")


def _life(lanes: Lanes, scene: Scene, entry: Entry, top: float) -> Iterator[str]:
    x, born = lanes.entry(entry.column), top + entry.born * STEP + 7
    says = f"prompt cache entry of {entry.tokens} tokens, saved during request {scene.rows[entry.born].number}"
    if entry.gone is None:
        last = top + (len(scene.rows) - 1) * STEP + 15
        line = f'<path class="life" d="M{x + 4:g} {born:g}V{last:g}"/>'
        yield f'<g><title>{says}</title>{line}{_box("full", x, born)}</g>'
        return
    gone, row = top + entry.gone * STEP + 7, scene.rows[entry.gone]
    says += f", removed {'on load ' * entry.is_consumed}during request {row.number}"
    line = f'<path class="life" d="M{x + 4:g} {born:g}V{gone:g}"/>'
    yield f'<g><title>{markup(says)}</title>{line}{_box("full", x, born)}{_box("gone box", x, gone)}'
    if entry.is_consumed:
        yield f'<path class="gone" d="M{x:g} {gone + 4:g}H{lanes.slot(row.slot) + 15:g}m4 -3l-4 3l4 3"/>'
    yield "</g>"


def _box(kind: str, x: float, y: float) -> str:
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="8" height="8"/>'
