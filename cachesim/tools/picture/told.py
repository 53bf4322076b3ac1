"""A walk as data for the script of a page: the log as numbers in sentences that are written once, and the memory as
changes."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.tools.picture.lanes import SHOWN
from cachesim.tools.picture.scale import HEAD, STEP, TOP
from cachesim.tools.picture.svg import Drawn
from cachesim.tools.picture.walk import Held, Walk

NUMBER = re.compile(r"(?<![\w#-])(?<!\w\.)\d+(?:,\d{3})*(?:\.\d+)?(?!\w)")
GAP = "\t"
END = 2**31 - 1              # a removal up to here is one of everything behind its beginning


class Told(NamedTuple):
    """A walk, and each of its events in words: ``RULE: what it decided`` or the event with its numbers. ``decisions``:
    which of them are decisions that changed something."""

    walk: Walk
    says: Sequence[str]
    decisions: Sequence[bool]


def event_text(record: Mapping[str, Any]) -> str:
    """An event as a log has it: its name and its numbers."""
    fields = {name: "end" if value == END else str(value).lower() if isinstance(value, bool) else value
              for name, value in record.items() if name != "ev" and value not in (None, "")}  # fmt: skip
    name = str(record["ev"])
    return f"{name}: {', '.join(f'{key} {value}' for key, value in fields.items())}" if fields else name


def script_data(drawn: Sequence[Drawn], told: Sequence[Told]) -> str:
    """JSON: the forms of all sentences, and each run."""
    forms: dict[str, int] = {}
    runs = [_run(one, other, forms) for one, other in zip(drawn, told, strict=False)]
    return json.dumps({"forms": list(forms), "runs": runs}, separators=(",", ":"), ensure_ascii=False)


def packed(text: str) -> str:
    """Text as a browser's DecompressionStream reads it: deflated, base64. A log repeats itself: a tenth is left."""
    return b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def _run(drawn: Drawn, told: Told, forms: dict[str, int]) -> dict[str, Any]:
    walk, lanes, scale = told.walk, drawn.lanes, drawn.scale
    return {
        "log": "\n".join(_line(says, forms) for says in told.says),
        "rows": flat(enumerate(walk.rows)), "begins": walk.begins, "ends": walk.ends,
        "slots": {slot: _slot(walk, slot) for slot in walk.held},
        "entries": flat((k, [list(one) for one in some if one[0] < SHOWN]) for k, some in walk.entries),
        "at": list(scale.at), "x": [round(scale.left + x, 1) for x in scale.x],
        "top": TOP, "step": STEP, "width": [round(drawn.plain), round(drawn.width)],
        "names": lanes.names, "head": [HEAD, TOP - 16],
        "cache": [lanes.cache, lanes.entry(0), lanes.entry(1)],
        "lanes": [lanes.slot(row.slot) for row in drawn.one.rows],
        "taken": [row.number for row in drawn.one.rows if row.entries.consumed],
    }  # fmt: skip


def _slot(walk: Walk, slot: int) -> dict[str, Any]:
    """What a slot held, each kind of it by itself; "owner" is the request whose tokens these are."""
    changes = {name: flat((k, _plain(getattr(one, name))) for k, one in walk.held[slot]) for name in Held._fields}
    return {"owner": flat(walk.owners.get(slot, [])), **changes}


def _plain(value: Any) -> Any:
    return [list(one) for one in value] if isinstance(value, tuple) else value


def flat(changes: Iterable[tuple[int, Any]]) -> list[Any]:
    """Pairs in one list, without those that change nothing; of every event only how far it is behind the one before."""
    out: list[Any] = []
    before = 0
    for k, value in changes:
        if not out or out[-1] != value:
            out += [k - before, value]
            before = k
    return out


def _line(says: str, forms: dict[str, int]) -> str:
    """A sentence as the number of its form and the numbers in it."""
    says = says.replace(GAP, " ")
    numbers = NUMBER.findall(says)
    return " ".join([str(forms.setdefault(NUMBER.sub(GAP, says), len(forms))), *numbers])
