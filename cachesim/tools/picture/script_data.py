"""Event logs as compact data for the script of a page: sentences as numbers in shared forms, memory as lists of
changes."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from functools import lru_cache
from typing import Any, Iterable, Iterator, Sequence

from cachesim.engines.shared.slot_events import CkptRestore, PcLoad
from cachesim.tools.picture.event_stream import CaptionedWalk, EventWalk, SlotContents
from cachesim.tools.picture.legend import FURTHER, lowered, pitch
from cachesim.tools.picture.position_scale import HEAD, STEP, TOP
from cachesim.tools.picture.scene import StepRow
from cachesim.tools.picture.slot_lanes import SHOWN
from cachesim.tools.picture.svg import RunDrawing

NUMBER = re.compile(r"(?<![\w#-])(?<!\w\.)\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
GAP = "\t"


def script_data(drawn: Sequence[RunDrawing], told: Sequence[CaptionedWalk]) -> str:
    """Return JSON with the forms of all sentences, and each run."""
    forms: dict[str, int] = {}
    runs = [_run(one, other, forms) for one, other in zip(drawn, told, strict=False)]
    return json.dumps({"forms": list(forms), "runs": runs}, separators=(",", ":"), ensure_ascii=False)


def packed(text: str) -> str:
    """Return text for a browser's DecompressionStream: deflated, base64. Logs shrink to about a tenth."""
    return b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def _run(drawn: RunDrawing, told: CaptionedWalk, forms: dict[str, int]) -> dict[str, Any]:
    walk = told.walk
    lanes = drawn.lanes
    scale = drawn.scale
    return {
        "log": "\n".join(_line(says, forms) for says in told.says),
        "rows": flat(enumerate(walk.rows)), "begins": walk.begins, "ends": walk.ends,
        "slots": {slot: _slot(walk, slot) for slot in walk.held},
        "entries": flat((k, [list(one) for one in some if one[0] < SHOWN]) for k, some in walk.entries),
        "at": list(scale.at), "x": [round(scale.left + x, 1) for x in scale.x], "top": TOP, "step": STEP,
        "width": [round(drawn.plain), round(drawn.width)], "names": lanes.names, "head": [HEAD, TOP - 16],
        "cache": [lanes.cache, lanes.entry(0), lanes.entry(1)],
        "lanes": [lanes.slot(row.slot) for row in drawn.scene.rows],
        "bars": [*_further_bars(walk, drawn.scene.strips)], "lower": lowered(drawn.scene.strips),
        "state": drawn.scene.state,
        "taken": [row.number for row in drawn.scene.rows if row.entries.is_consumed],
        "in": [row.slot for row in drawn.scene.rows], "words": [_words(row) for row in drawn.scene.rows],
        "wrong": [row.number for row in drawn.scene.rows if row.is_wrong],
        "settled": walk.settled(), "reads": [*_reads(walk)],
        "lost": [[k, part.stop - part.start, row.number] for row in drawn.scene.rows for part in row.stretches
                 if part.origin == "again" and (k := walk.lost(row.number, part)) is not None],
    }  # fmt: skip


def _words(row: StepRow) -> list[list[Any]]:
    """Return the words of a request and its answer: first position, name, position after the last."""
    end, made = (row.words[-1].stop if row.words else 0), row.stretches[-1:]
    each = [[one.start, f"{one.name} ({one.title})" if one.title else one.name, one.stop] for one in row.words]
    return [*each, *([end, "answer", part.stop] for part in made if part.origin == "generated")]


def _reads(walk: EventWalk) -> Iterator[list[Any]]:
    """Yield what is read into a slot: the event at which the slot changes, "checkpoint" or "entry", its length."""
    for k, event in enumerate(walk.events):
        if isinstance(event, CkptRestore) and event.slot is not None:
            yield [max((at for at, _ in walk.held[event.slot] if at <= k), default=k), "checkpoint", event.n_tokens]
        elif isinstance(event, PcLoad):
            for slot, changes in walk.owners.items():
                loaded = next((at for at, owner in changes if owner == walk.rows[k] and at >= k), None)
                yield from ([at, "entry", one.tokens] for at, one in walk.held[slot] if at == loaded)


def _slot(walk: EventWalk, slot: int) -> dict[str, Any]:
    """Return the contents of a slot, each field as changes; "owner" is the request whose tokens it holds."""
    held = walk.held[slot]
    names = [name for name in SlotContents._fields if name != "compressed"]
    changes = {name: flat((k, _plain(getattr(one, name))) for k, one in held) for name in names}
    numbered = {_name(ratio): flat((k, [[0, count] for at, count in one.compressed if at == ratio]) for k, one in held)
                for ratio in _ratios(walk)}  # fmt: skip
    return {"owner": flat(walk.owners.get(slot, [])), **changes, **numbered}


def _ratios(walk: EventWalk) -> list[int]:
    """Return the ratios of all compressed rows, ascending."""
    return sorted({ratio for held in walk.held.values() for _, one in held for ratio, _ in one.compressed})


def _name(ratio: int) -> str:
    """Return the name of the field with the numbers of compressed rows of a ratio."""
    return f"compressed{ratio}"


def _further_bars(walk: EventWalk, strips: int) -> Iterator[list[Any]]:
    """Yield the lines below those of windows: field, class, distance from the tokens, name, tokens of a row."""
    if any(one.index_rows for held in walk.held.values() for _, one in held):
        yield ["index_rows", "idx", FURTHER, "index: rows", 1]
    for number, ratio in enumerate(_ratios(walk)):
        name = f"compressed rows of {ratio} tokens:"
        yield [_name(ratio), "packed", FURTHER + number * pitch(strips), name, ratio]


@lru_cache(maxsize=1024)                                 # requests that share all checkpoints have the same lists
def _plain(value: Any) -> Any:
    return [list(one) for one in value] if isinstance(value, tuple) else value


def flat(changes: Iterable[tuple[int, Any]]) -> list[Any]:
    """Return the pairs as a flat list with distances between events; pairs that repeat the value are dropped."""
    out: list[Any] = []
    before = 0
    for k, value in changes:
        if not out or out[-1] != value:
            out += [k - before, value]
            before = k
    return out


def _line(says: str, forms: dict[str, int]) -> str:
    """Return a sentence as the number of its form and the numbers in it."""
    says = says.replace(GAP, " ")
    numbers = NUMBER.findall(says)
    return " ".join([str(forms.setdefault(NUMBER.sub(GAP, says), len(forms))), *numbers])
