"""Memory of a server as data and as text: the total, its parts, and the flag to lower first."""

from __future__ import annotations

from typing import Any, Iterator

from rich.console import RenderableType
from rich.table import Column
from rich.text import Text

from cachesim.base.layout import WholeTable, block_bar
from cachesim.engines.contract import Engine
from cachesim.engines.shared.model_layers import RealModel
from cachesim.engines.shared.model_sizes import size_check, sized_name
from cachesim.tools.memory.estimate import Lowered, MemoryEstimate
from cachesim.tools.memory.workload_cost import WorkloadCost
from cachesim.tools.workload.curve_point import CurveCell

Data = dict[str, Any]
GIB = 1 << 30
MIB = 1 << 20
FEW = 3
BAR = 16                     # characters of the bar of all memory


def memory_data(word: str, model: RealModel, found: MemoryEstimate, room: int) -> Data:
    """Return the report's data. ``word``: the model as it was given; ``room``: memory for the caches [bytes], 0 = not
    given."""
    use, engine = found.use, found.engine
    return {
        "model": word, "source": model.source, "compared": _compared(word), "profile": found.rules.name,
        "set": [{"flag": _spelled(engine, name), "value": value} for name, value in found.given.items()],
        "chosen": _pairs({name: n for name, n in use.chosen.items() if found.given.get(name) != n}),
        "total": use.total, "room": room or None, "unlimited": _spelled(engine, use.unlimited) or None,
        "fits": use.total <= room and not use.unlimited if room else None,
        "each": {"token": use.token, "window_token": use.window, "state": use.state, "checkpoint": use.checkpoint},
        "parts": [{"name": part.name, "each": part.each, "number": part.number, "unit": part.unit, "bytes": part.bytes,
                   "host": part.host} for part in use.parts],
        "notes": [*use.notes], "pool": _pairs(use.pool), "takes_all": use.takes_all,
        "largest_context": found.most or None,
        "lower": [_lower(engine, one) for one in found.lower],
        "together": [_lower(engine, one) for one in found.together],
    }  # fmt: skip


def add_cost(data: Data, cost: WorkloadCost) -> None:
    """Add what recorded sessions evaluate to the data of an estimate, and to its smaller values."""
    data["workload"] = {
        **_cell(cost.whole), "evaluated_unlimited": cost.unlimited,
        "sessions": [{"number": n, **_cell(cell)} for n, cell in cost.at_a_time.items()],
    }  # fmt: skip
    for change, cell in zip(data["lower"], cost.lower, strict=True):
        change["workload"] = _cell(cell) if cell is not None else None


def _cell(cell: CurveCell) -> Data:
    return {"requests": cell.requests, "answered": cell.answered, "prompt": cell.prompt, "evaluated": cell.evaluated}


def _compared(word: str) -> str | None:
    """Return the public place where the sizes of a named model were compared, "" for none; None for a file."""
    name = sized_name(word)
    return size_check(name) if name else None


def _pairs(numbers: Any) -> list[Data]:
    return [{"name": name, "number": n} for name, n in numbers.items()]


def _lower(engine: Engine, change: Lowered) -> Data:
    return {"flag": _spelled(engine, change.option), "before": change.before, "after": change.after,
            "total": change.total, "fits": change.fits}  # fmt: skip


def _spelled(engine: Engine, option: str) -> str:
    """Return an option as it stands on a command line; "" for no option."""
    forms = engine.memory()
    flags = [*engine.manual.flags, *(forms.flags if forms else ())]
    return next((next((word for word in flag.spellings if word.startswith("--")), option)
                 for flag in flags if flag.name == option), option)  # fmt: skip


def memory_report(data: Data) -> Iterator[RenderableType]:
    """Yield the report: the total and whether it fits, the parts, sizes of single objects, and what to lower."""
    yield answer(data)
    yield Text(f"{data['model']} under {data['profile']}{options_text(data)}", "dim")
    yield _table(data["parts"], max(data["total"], data["room"] or 0))
    yield from _each(data["each"])
    if data["compared"] == "":
        yield Text(f"note: sizes not verified: {data['source']}, not found in a second public place", "yellow")
    if "workload" in data:
        yield from _workload(data["workload"])
    for note in data["notes"]:
        yield Text(f"note: {note}", "yellow")
    if data["room"] and data["pool"] and not data["takes_all"]:
        yield Text(f"{gib_text(data['room'])} hold {_counts(data['pool'])}")
    if data["largest_context"]:
        yield Text(f"largest context that fits: {data['largest_context']:,} tokens")
    if data["together"]:
        flags = " ".join(_spelling(one["flag"], one["after"]) for one in data["together"])
        total = gib_text(data["together"][-1]["total"])
        yield Text(f"no flag alone is enough; together: {flags}: {total}, fits", "green")
    for n, one in enumerate(data["lower"][:FEW]):
        yield _advice(one, n)


def _workload(cost: Data) -> Iterator[Text]:
    """Yield what the sessions evaluate, and how many of them fit at a time."""
    sessions = cost["sessions"]
    plural = "s" if sessions[-1]["number"] > 1 else ""
    told = f"{sessions[-1]['number']:,} session{plural} at a time: {_evaluated(cost)}"
    if cost["answered"] == cost["requests"] and cost["prompt"]:
        told += f"; with unlimited memory {100 * cost['evaluated_unlimited'] / cost['prompt']:.1f} %"
    yield Text(told, "bold")
    if len(sessions) < 2:
        return
    first = sessions[0]
    fits = first
    for one in sessions:
        if one["answered"] < first["answered"] or one["evaluated"] > first["evaluated"]:
            break
        fits = one
    steps = ", ".join(f"{one['number']:,}: {_evaluated(one)}" for one in sessions[:-1])
    if fits is first:
        yield Text(f"more than one at a time evaluate more than each alone ({steps})")
    else:
        yield Text(f"up to {fits['number']:,} at a time evaluate no more than each alone ({steps})")


def _evaluated(cell: Data) -> str:
    """Return the evaluated share, and how many requests are refused."""
    failed = cell["requests"] - cell["answered"]
    if not cell["prompt"]:
        return "all requests fail"
    share = f"{100 * cell['evaluated'] / cell['prompt']:.1f} %"
    if not failed:
        return f"{share} of the prompt tokens are evaluated"
    return f"{failed:,} of {cell['requests']:,} requests fail, {share} of the other prompts are evaluated"


def options_text(data: Data) -> str:
    """Return the options, those that were left to the server in parentheses."""
    given = [f" {_spelling(one['flag'], one['value'])}" for one in data["set"]]
    chosen = [f"{one['name']} {one['number']:,}" for one in data["chosen"]]
    return "".join(given) + (f" ({', '.join(chosen)})" if chosen else "")


def _spelling(flag: str, value: Any) -> str:
    """Return a flag with its value."""
    return f"{flag} {value}" if not isinstance(value, bool) else flag if value else f"no {flag}"


def _counts(pool: list[Data]) -> str:
    return ", ".join(f"{one['number']:,} {one['name']}" for one in pool)


def answer(data: Data) -> Text:
    """Return the first line."""
    total = data["total"]
    room = data["room"]
    beside = "beside weights and compute buffers"
    if data["unlimited"]:
        return Text(f"at least {gib_text(total)} {beside}: {data['unlimited']} sets no limit", "bold red")
    if room is None:
        return Text(f"{gib_text(total)} at most, {beside}", "bold")
    if data["takes_all"]:
        return Text(f"{gib_text(room)} hold {_counts(data['pool'])}", "bold")
    verdict = "fits into" if data["fits"] else "does not fit into"
    style = "bold" if data["fits"] else "bold red"
    return Text(f"{gib_text(total)} at most, {beside}: {verdict} {gib_text(room)}", style)


def _table(parts: list[Data], whole: int) -> WholeTable:
    """Return the parts with a bar each. ``whole``: bytes of a full bar, those of all parts or the given memory."""
    numbers = (Column(name, justify="right") for name in ("number", "bytes each", "MiB"))
    table = WholeTable("part", *numbers, Column("", no_wrap=True), "", pad_edge=False)
    for one in parts:
        table.add_row(
            one["name"],
            f"{one['number']:,} {one['unit']}",
            f"{one['each']:,}",
            f"{one['bytes'] / MIB:,.1f}",
            Text(block_bar(one["bytes"], whole, BAR), "cyan"),
            "host" if one["host"] else "",
        )
    return table


def _each(each: Data) -> Iterator[Text]:
    """Yield the sizes of a token, of the states of a conversation, and of a checkpoint."""
    told = [f"{each['token']:,} bytes in attention" if each["token"] else "",
            f"{each['window_token']:,} bytes in windows" if each["window_token"] else ""]  # fmt: skip
    if any(told):
        yield Text(f"a token: {', '.join(filter(None, told))}")
    sizes = (("states of a conversation", each["state"]), ("a checkpoint", each["checkpoint"]))
    if any(size for _, size in sizes):
        yield Text(", ".join(f"{what}: {size / MIB:,.3f} MiB" for what, size in sizes if size))


def _advice(change: Data, n: int) -> Text:
    verdict = {True: ", fits", False: ", does not fit", None: ""}[change["fits"]]
    values = f"{_spelling(change['flag'], change['before'])} -> {_value(change['after'])}"
    cost = change.get("workload")
    evaluated = f"; {_evaluated(cost)}" if cost else ""
    text = f"{'or:' if n else 'lower first:':<12} {values}: {gib_text(change['total'])}{verdict}{evaluated}"
    return Text(text, "green" if change["fits"] else "")


def _value(value: Any) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


def gib_text(n: int) -> str:
    """Return bytes in GiB, small amounts in MiB."""
    return f"{n / GIB:,.1f} GiB" if n >= GIB else f"{n / MIB:,.1f} MiB"
