"""Results of the Python interface: a run, a judged run, and several of them.

Each has a ``repr`` of a line, a picture in notebooks, plain data (``to_dict``), and tables. A table is a list of
dictionaries with equal keys, a dictionary for each row; ``pandas.DataFrame(run.table)`` accepts it. Lengths and counts
are tokens, requests are numbered from 0.

``==`` compares tables: ``run == other_run``, or ``run == [{"cache_n": 0}, {"cache_n": 96}]``, in which each row has
the columns that matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Mapping, NamedTuple, Self, Sequence, TypeVar, overload

from cachesim.base.errors import BadInput, counted, cut
from cachesim.engines.base import Answer, Request
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Log
from cachesim.judging.judged_run import CASE, Run, run_judged
from cachesim.judging.run_data import request_data, run_data
from cachesim.scenarios.schema import Scenario

Row = Mapping[str, Any]
Table = list[dict[str, Any]]
PROFILE = "profile"          # the column that names the rule set; two results are compared without it
ABSENT, PRESENT = "absent", "present"    # stand for a row or a column that only one of two tables has
COLUMNS = ("prompt", "cache_n", "prompt_n", "id_slot", "status", "kept", "restored", "loaded", "verdict", "reason")


class TableDifference(NamedTuple):
    """A value that differs between two tables. ``where``: the request, with its rule set if the table has several;
    ``column``: "" = the whole row."""

    where: str
    column: str
    found: Any
    expected: Any

    def __str__(self) -> str:
        name = f"{self.column} of {self.where}" if self.column else self.where
        return f"{name} is {_text(self.found)}, expected {_text(self.expected)}"


def _text(value: object) -> str:
    return str(value) if value in (ABSENT, PRESENT) else cut(repr(value))


def table_differences(found: Sequence[Row], expected: Sequence[Row]) -> list[TableDifference]:
    """Return the values of a table that differ from expected rows, in the columns of the expected rows."""
    out = []
    several = len({row[PROFILE] for row in found}) > 1
    names = [f"request {row['request']}{f' under {row[PROFILE]}' if several else ''}" for row in found]
    for name, row, wanted in zip(names, found, expected, strict=False):
        values = {column: row.get(column, ABSENT) for column in wanted}
        out += [TableDifference(name, column, values[column], value) for column, value in wanted.items()
                if values[column] != value]  # fmt: skip
    for name in names[len(expected) :]:
        out.append(TableDifference(name, "", PRESENT, ABSENT))
    for number in range(len(found), len(expected)):
        out.append(TableDifference(f"row {number}", "", ABSENT, PRESENT))
    return out


class Tabular(ABC):
    """Base of results that are compared by their tables."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @property
    @abstractmethod
    def title(self) -> str:
        """The case and its rule sets: ``S40.A60/S.A under llama_cpp@b11549``."""

    @property
    @abstractmethod
    def table(self) -> Table:
        """A row for each request."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``."""

    def differences(self, expected: object) -> list[TableDifference] | None:
        """Return the values that differ from another result, in the columns that both have, or from a sequence of
        mappings from columns to values; None for any other object. The rule sets of two results may differ."""
        if not isinstance(expected, Tabular):
            if isinstance(expected, Sequence) and all(isinstance(row, Mapping) for row in expected):
                return table_differences(self.table, expected)
            return None
        mine = self.table
        names = {name for row in mine for name in row} - {PROFILE}
        others = [{name: value for name, value in row.items() if name in names} for row in expected.table]
        return table_differences(mine, others)

    def __eq__(self, other: object) -> bool:
        found = self.differences(other)
        return NotImplemented if found is None else not found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RunTranscript(Tabular):
    """Run of a case under a rule set, without a comparison: the result of ``cachesim.run``.

    ``requests`` has a pair for each step of the case, or None for a step that is not a completion (a slot saved, a
    restart): ``Request.prompt`` are the tokens that were sent; of the ``Answer``, ``cache_n`` is the number of reused
    and ``prompt_n`` that of evaluated prompt tokens. ``log``: every event and decision. ``scenario``: the case."""

    profile: str
    requests: list[tuple[Request, Answer] | None]
    log: Log
    scenario: Scenario
    mode: str = "provenance"

    @property
    def title(self) -> str:
        """The case and its rule set: ``S40.A60/S.A under llama_cpp@b11549``."""
        return _title(self.scenario, self.profile)

    @property
    def table(self) -> Table:
        """A row for each request, without steps that are not completions. Columns: ``profile``, ``request`` (its
        number), ``text``, ``prompt`` (length), ``cache_n``, ``prompt_n``, ``id_slot``, ``status`` (HTTP)."""
        return [
            {PROFILE: self.profile, "request": number, "text": self.scenario.steps[number].prompt,
             "prompt": len(pair[0].prompt), "cache_n": pair[1].cache_n, "prompt_n": pair[1].prompt_n,
             "id_slot": pair[1].id_slot, "status": pair[1].status}
            for number, pair in enumerate(self.requests) if pair is not None
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``: case, model, rule set, and the rows of ``table``."""
        return {"scenario": self.scenario.name, "model": self.scenario.model, PROFILE: self.profile, "mode": self.mode,
                "requests": self.table}  # fmt: skip

    def __repr__(self) -> str:
        rows = self.table
        reused, prompt = (sum(row[name] for row in rows) for name in ("cache_n", "prompt"))
        return f"<{type(self).__name__} of {self.title}: {reused} of {prompt} prompt tokens reused>"

    def _repr_html_(self) -> str | None:
        """Return the picture of the case for a notebook; the case is judged for it."""
        return judge_case(self.scenario, self.profile, "provenance")._repr_html_()


class JudgedRun(Tabular, Run):
    """Run of a case under a rule set, compared with cold runs: the result of ``cachesim.judge``.

    ``verdict.word`` is "correct", "wrong" or "undecided"; ``broken`` lists the requests that differ from a cold run.
    ``requests`` has a record for each step: its ``request``, ``answer``, verdicts (``judged``) and recompute ledger
    (``ledger``). ``log``: every event and decision. ``scenario``: the case."""

    __slots__ = ()

    @property
    def title(self) -> str:
        """The case and its rule set: ``S40.A60/S.A under llama_cpp@b11549``."""
        return _title(self.scenario, self.profile)

    @property
    def table(self) -> Table:
        """A row for each request, without steps that are not completions. Columns: ``profile``, ``request`` (its
        number), ``text``, ``prompt`` (length), ``cache_n`` = ``kept`` + ``restored`` + ``loaded``, ``prompt_n``
        (evaluated), ``id_slot``, ``status`` (HTTP), ``verdict``, ``reason`` (of the reuse), ``re_evaluated``: tokens
        evaluated although they were evaluated before."""
        out = []
        for number, one in enumerate(self.requests):
            if self.scenario.steps[number].action is None:
                data = request_data(self, number, one)
                out.append({PROFILE: self.profile, "request": number, "text": data["text"],
                            **{name: data[name] for name in COLUMNS}, "re_evaluated": one.re_evaluated})  # fmt: skip
        return out

    @property
    def charges(self) -> Table:
        """The recompute ledger, a row for each entry. Columns: ``profile``, ``request`` that evaluated ``tokens``
        again, the ``event`` that lost their state ``at`` another request, the ``kind`` of the restore point, and the
        ``rule`` that decided it."""
        return [{PROFILE: self.profile, **charge._asdict()} for one in self.requests for charge in one.ledger.charges]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``: an element of ``runs`` of ``cachesim run --json``."""
        return run_data(self)

    def _repr_html_(self) -> str | None:
        """Return the picture for a notebook; None, for which it prints the ``repr``, under a table of rules that is
        not a rule set."""
        return _html([self])


R = TypeVar("R", RunTranscript, JudgedRun)


class Runs(Tabular, Sequence[R]):
    """Runs of a case under several rule sets, in their order. ``runs[0]`` and ``runs["vllm@0.33.0"]`` are runs; an
    engine's name finds its run if there is only one."""

    __slots__ = ("_runs",)

    def __init__(self, runs: Sequence[R]) -> None:
        """``runs``: at least one."""
        self._runs: tuple[R, ...] = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, key: int | str) -> R: ...

    @overload
    def __getitem__(self, key: slice) -> Self: ...

    def __getitem__(self, key: int | str | slice) -> R | Self:
        """Return the run of a number or a rule set, or the runs of a slice. Raise IndexError; KeyError for a name that
        no run, or more than one, has."""
        if isinstance(key, slice):
            return type(self)(self._runs[key])
        if isinstance(key, int):
            return self._runs[key]
        found = [run for run in self._runs if key in (run.profile, run.profile.partition("@")[0])]
        if len(found) != 1:
            raise KeyError(f"{key}: {counted(len(found), 'run')} of {', '.join(run.profile for run in self._runs)}")
        return found[0]

    @property
    def title(self) -> str:
        """The case and its rule sets: ``S40.A60/S.A under llama_cpp@b11549, vllm@0.33.0``."""
        return _title(self._runs[0].scenario, ", ".join(run.profile for run in self._runs))

    @property
    def table(self) -> Table:
        """The rows of all runs, with the columns of a run's table."""
        return [row for run in self._runs for row in run.table]

    @property
    def charges(self) -> Table:
        """The recompute ledgers of all judged runs, with the columns of a run's ``charges``."""
        return [row for run in self._runs for row in getattr(run, "charges", ())]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for ``json.dumps``: ``runs`` has the data of each run."""
        return {"runs": [run.to_dict() for run in self._runs]}

    def __repr__(self) -> str:
        return "\n".join(["<Runs", *(f"  {run!r}" for run in self._runs)]) + ">"

    def _repr_html_(self) -> str | None:
        """Return the pictures below each other for a notebook, those of several engines as bars first."""
        return _html([run if isinstance(run, JudgedRun) else judge_case(run.scenario, run.profile, "provenance")
                      for run in self._runs])  # fmt: skip


class NotCorrect(AssertionError):
    """Raised by ``judge(..., check=True)`` for a run that is wrong or undecided. The first line of its text names case,
    rule set and fault, the others are the table of ``cachesim run``. ``run``: the judged run, None in a copy of the
    exception that another process sent."""

    __module__ = "cachesim"      # the name under which users import it: pytest and tracebacks print it

    def __init__(self, text: str, run: JudgedRun | None = None) -> None:
        self.run = run
        super().__init__(text)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return type(self), (str(self),)


def not_correct(run: JudgedRun) -> NotCorrect:
    """Return the exception for a run that is not correct."""
    from cachesim.base.console import as_text
    from cachesim.judging.verdict_text import verdict_line
    from cachesim.tools.run.run_table import run_report

    data = run_data(run)
    return NotCorrect(f"{run.title}: {verdict_line(data).plain}\n\n{as_text(run_report(data))}", run)


def _title(scenario: Scenario, profiles: str) -> str:
    return f"{cut(scenario.name, CASE)} under {profiles}"


def judge_case(scenario: Scenario, profile: str, mode: str, table: RuleSet | None = None) -> JudgedRun:
    """Run a scenario under a profile and judge it, as ``cachesim.judge`` does. Raise BadInput."""
    from cachesim.tools.picture.cell_recorder import CellRecorder

    run = run_judged(scenario, profile, mode, table=table, watcher=CellRecorder())
    return JudgedRun(**{one.name: getattr(run, one.name) for one in fields(run)})


def picture(runs: Sequence[Run]) -> str:
    """Return the picture of judged runs of a case as the text of an SVG file. Raise BadInput; see ``cachesim.svg``."""
    from cachesim.tools.picture.cell_recorder import CellRecorder
    from cachesim.tools.picture.scene import scene
    from cachesim.tools.picture.svg import draw

    if len({one.scenario.id for one in runs}) != 1:
        raise BadInput("a picture shows one case", hint="svg(judge(case, profile), judge(case, another_profile))")
    recorders = [one.watcher for one in runs if isinstance(one.watcher, CellRecorder)]
    if len(recorders) < len(runs):
        raise BadInput("a picture shows results of judge", hint="svg(judge(case, profile))")
    return draw([scene(one.scenario, run_data(one), recorder.cells())
                 for one, recorder in zip(runs, recorders, strict=True)])  # fmt: skip


def _html(runs: Sequence[JudgedRun]) -> str | None:
    """Return the picture of runs as HTML that scrolls sideways, None if they cannot be drawn."""
    try:
        return f'<div style="overflow-x:auto">{picture(runs)}</div>'
    except BadInput:
        return None
