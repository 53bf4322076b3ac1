"""Reports on real servers: their builds, and a scenario beside the simulator."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Collection, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from cachesim.base.errors import counted
from cachesim.base.escaping import shell_word
from cachesim.base.layout import WholeTable, as_typed
from cachesim.tools.run.real_option import ShownRun

Data = dict[str, Any]
SAME = {True: ("equal", "green"), False: ("DIFFERS", "bold red"), None: ("undecided", "yellow")}
ENDS = {0: "process ended", -1: "never answered"}
ANSWER = {True: "correct", False: "WRONG", None: "?"}


def list_report(rows: Sequence[Data]) -> RenderableType:
    """Return a table of builds."""
    table = WholeTable()
    for name in ("build", "package", "installed", "compared"):
        table.add_column(name)
    for row in rows:
        size = f"{row['bytes'] / 2**20:.0f} MiB" if row["installed"] else "no"
        compared = "answers and log" if row["log_read"] else "answers"
        table.add_row(row["build"], row["package"], size, compared)
    folders = sorted({row["folder"] for row in rows if row["folder"]})
    return Group(table, *(Text(f"  {folder}", "dim") for folder in folders))


def comparisons_report(compared: Sequence[Data], shown: Collection[ShownRun]) -> Iterator[RenderableType]:
    """Yield the comparisons of scenarios with real builds, and whether the builds differ from each other. Simulated
    numbers stand there once: ``shown`` are those printed above."""
    known = {*shown}
    has_table = False
    for data in compared:
        numbers = _numbers_of(data)
        yield real_report(data, is_shown=numbers in known)
        has_table |= bool(_listed(data, numbers in known))
        known.add(numbers)
    yield from between_builds(compared)
    yield Text(f"  {LEGEND}\n" if has_table else "")


def _numbers_of(data: Data) -> ShownRun:
    rows = ((row["ours"][name] for name in ("cache_n", "prompt_n", "status", "equal")) for row in data["requests"])
    return ShownRun(data["scenario"], tuple(map(tuple, rows)))


def _listed(data: Data, is_shown: bool) -> list[Data]:
    """Return the requests in the table of a comparison."""
    return [row for row in data["requests"] if not is_shown or row["same"] is not True]


def real_report(data: Data, is_shown: bool = False) -> RenderableType:
    """Return a table of a scenario's requests: simulated, real, and whether they are equal. ``is_shown``: the simulated
    numbers stand above, so that equal requests are left out."""
    head = Text.assemble((data["scenario"], "bold"), f"  {data['model']}  ", (data["profile"], "cyan"),
                         " | real ", (data["build"], "cyan"))  # fmt: skip
    table = WholeTable()
    table.add_column("#", justify="right")
    table.add_column("request", overflow="fold")
    for name in ("simulated", "real", ""):
        table.add_column(name)
    listed = _listed(data, is_shown)
    for row in listed:
        table.add_row(str(row["number"]), Text(row["text"]), _side(row["ours"]), _side(row["theirs"]),
                      Text(*SAME[row["same"]]))  # fmt: skip
    lines = [line for row in data["requests"] for line in _below(row)]
    lines += [Text(f"  note: {note}", "dim") for note in data["notes"]]
    if data["left_out"]:
        lines.append(Text(f"  not run on {data['build']}: {data['left_out']}", "yellow"))
    tables = [table] if listed else []
    return Group(head, *tables, *lines, Text(f"  => {verdict(data)}"))


LEGEND = "reused + evaluated tokens; answer compared with a cold run of its own side"


def verdict(data: Data) -> str:
    """Return the result of a comparison in words."""
    compared = "answers and decisions" if data["log_read"] else "answers"
    if data["same"]:
        return f"{compared} are equal on the real {data['build']}"
    differing = [str(row["number"]) for row in data["requests"] if row["same"] is False]
    if differing:
        return f"DIFFERS on the real {data['build']}, first in request {differing[0]}"
    return f"undecided on the real {data['build']}"


def _side(side: Data) -> str:
    if side["status"] in ENDS:
        return ENDS[side["status"]]
    if side["status"] not in (200, None):
        return f"HTTP {side['status']}"
    if side["prompt_n"] is None:
        return "-"
    return f"{side['cache_n']} + {side['prompt_n']}, {ANSWER[side['equal']]}"


def _below(row: Data) -> Iterator[Text]:
    if row["first"]:
        yield Text(f"  request {row['number']}: first difference: {row['first']}", "red")
    if row["why"]:
        yield Text(f"  request {row['number']}: undecided: {row['why']}", "yellow")


def between_builds(compared: Sequence[Data]) -> Iterator[RenderableType]:
    """Yield a line for each scenario that ran on several real builds: whether their answers differ."""
    cases: dict[str, list[Data]] = {}
    for data in compared:
        if data["requests"]:
            cases.setdefault(data["scenario"], []).append(data)
    for scenario, runs in cases.items():
        for older, newer in pairwise(runs):
            pairs = zip(older["requests"], newer["requests"], strict=False)
            differing = [str(a["number"]) for a, b in pairs if a["theirs"] != b["theirs"]]
            what = f"differ in request {', '.join(differing)}" if differing else "give equal results"
            yield Text(f"{scenario}: the real {older['build']} and {newer['build']} {what}")


SHOWN = 3                   # requests of which the history shows a column


def history_report(data: Data) -> RenderableType:
    """Return the course of a scenario over real builds: the change, and each build that was run."""
    shown = (changed_requests(data) or list(_numbers(data)))[:SHOWN]
    table = WholeTable()
    table.add_column("real")
    for number in shown:
        table.add_column(f"request {number}")
    table.add_column("simulator")
    for run in data["runs"]:
        sides = [_side(run["requests"][number]["theirs"]) for number in shown]
        table.add_row(run["build"], *sides, Text(*SAME[run["same"]]))
    lines = [Text(f"  not run on {one['build']}: {one['left_out']}", "yellow") for one in data["not_run"]]
    lines += [Text.assemble(f"  {run['build']}:", line)
              for run in data["runs"] for row in run["requests"] for line in _below(row)]  # fmt: skip
    lines += [Text(f"  {', '.join(builds)}: note: {note}", "dim") for note, builds in _notes(data).items()]
    tables = [table] if data["runs"] else []
    return Group(Text(change_sentence(data), "bold"), *tables, *lines, Text(f"  {LEGEND}", "dim"))


def _notes(data: Data) -> dict[str, list[str]]:
    """Return the notes on what was changed to send the scenario, each with the builds that it concerns."""
    found: dict[str, list[str]] = {}
    for run in data["runs"]:
        for note in run["notes"]:
            found.setdefault(note, []).append(run["build"])
    return found


def change_sentence(data: Data) -> str:
    """Return where the outcome changed between real builds: the first change, which the halving looked for, and further
    ones that the runs happen to show."""
    builds = [run["build"] for run in data["runs"]]
    if data["first_new"]:
        which = changed_requests(data)
        subject = f"requests {', '.join(map(str, which))} change" if len(which) > 1 else f"request {which[0]} changes"
        places = [f"between {older['build']} and {newer['build']}" for older, newer in pairwise(data["runs"])
                  if _outcome(older) != _outcome(newer)]  # fmt: skip
        return f"real builds: {subject} {', and again '.join(places)}"
    if len(builds) < 2:
        return "real builds: fewer than two could be compared"
    return f"real builds: no request changes between {builds[0]} and {builds[-1]}"


def _outcome(run: Data) -> list[Data]:
    """Return the real outcome of every request of a run."""
    return [row["theirs"] for row in run["requests"]]


def changed_requests(data: Data) -> list[int]:
    """Return the requests whose real outcome differs between the builds that were run."""
    return [number for number in _numbers(data)
            if any(run["requests"][number]["theirs"] != data["runs"][0]["requests"][number]["theirs"]
                   for run in data["runs"])]  # fmt: skip


def _numbers(data: Data) -> range:
    """Return the numbers of the requests that every build ran."""
    return range(min((len(run["requests"]) for run in data["runs"]), default=0))


def search_report(data: Data) -> RenderableType:
    """Return the result of a search: the differences, each with its smallest conversation, then the numbers."""
    lines: list[RenderableType] = []
    for one in data["differences"]:
        flags = "".join(f" --set {name}={value}" for name, value in one["server"].items())
        command = f"cachesim run {shell_word(one['line'], quotes=True)} --model {shell_word(one['model'])}{flags} " \
                  f"--real {data['build']}"  # fmt: skip
        lines += [as_typed(command, "red", f"conversation {one['number']} differs: "), real_report(one["comparison"])]
    ran = f"{counted(data['conversations'], 'conversation')}, {counted(data['requests'], 'request')}"
    counts = f"{ran}: {data['equal']:,} equal"
    undecided = counted(sum(one["requests"] for one in data["undecided"]), "request")
    differing = len(data["differences"])
    result = f"{counted(differing, 'conversation')} differ{'s' if differing == 1 else ''}, {undecided} undecided"
    lines.append(Text.assemble((f"real {data['build']}", "bold"), f": {counts}; {result}"))
    lines += [Text(f"  undecided: {counted(one['requests'], 'request')}: {one['why']}") for one in data["undecided"]]
    lines += [Text(f"  not run: {counted(one['conversations'], 'conversation')}: {one['why']}")
              for one in data["left_out"]]  # fmt: skip
    return Group(*lines)
