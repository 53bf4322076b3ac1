"""Sentences of the report on a log: a text file shows statements, each with the lines that the report prints for it.

After an intended change run python -m tests.unit.tools.server_logs.report_sentences, and read the difference.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Iterable, Iterator

from rich.console import Console, RenderableType

from cachesim.tools.server_logs.facts.statements import TOTAL
from cachesim.tools.server_logs.report.first_lines import facts_first, first_lines
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.server_logs.report.import_report import import_report, report_rest
from cachesim.tools.server_logs.report.log_contents import contents_report
from cachesim.tools.server_logs.report.statement_report import causes, follows_rows, read_rows

FILE = Path(__file__).with_name("report_sentences.txt")
HEAD = "Sentences of the report; python -m tests.unit.tools.server_logs.report_sentences updates them."
SIGN = ">>> "
Data = dict[str, Any]


def said(what: str = "request", line: int = 1, task: int | None = 7, kind: str = "follows", says: str = "",
         run: int = 0, slot: int | None = 0, **numbers: Any) -> Data:  # fmt: skip
    """Return a statement about a log as data; ``numbers`` are those of a request."""
    return {"kind": kind, "what": what, "lines": [line], "slot": slot, "task": task, "run": run, "numbers": numbers,
            "says": says}  # fmt: skip


def request(number: int, agrees: bool | None = True, **more: Any) -> Data:
    """Return a simulated request as data."""
    return {"request": number, "step": number, "slot": 0, "n_tokens": 1000 + number, "lcp": 5, "prompt_n": 7,
            "cache_n": 8, "simulated": 9, "agrees": agrees, "undecided": False, "assumed": "", "left_out": "",
            **more}  # fmt: skip


def report(requests: Iterable[Data] = (), summary: Data | None = None, **more: Any) -> Data:
    """Return the report on a log as data."""
    rows = list(requests)
    nothing = {"requests": len(rows), "tokens": 200, "evaluated": 50, "lost": 0, "forced": [], "from_nothing": [],
               "again": [], "causes": []}  # fmt: skip
    return {"file": "a.log", "engine": "llama_cpp", "lines": 12, "recognised": 10, "log_requests": 7, "requests": rows,
            "turns": [], "profile": "llama_cpp@x", "profile_given": False, "model": "A", "statements": [], "agree": 0,
            "differ": 0, "undecided": 0, "missing": [], "line": "A9", "rejected": False, "complete": True,
            "contradicted": [], "candidates": 1, "first_lines": [], "cures": [], "arguments": [], "assumed_options": {},
            "summary": nothing | (summary or {}), **more}  # fmt: skip


def rendered(found: Data, everything: bool = False) -> str:
    """Return a report as it is printed on a wide terminal."""
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(import_report(found, "", everything))
    return console.file.getvalue()                                                 # type: ignore[attr-defined]


HEADLINES: list[list[Data]] = [
    [], [{"lost": 1}], [{"lost": 1_200}, {"task": 8, "lost": [300, 400]}],
    [{"lost": [0, 5]}, {"task": 8, "lost": 2, "prompt_n": 30, "n_tokens": 120}],
    [{"lcp": 10, "cache_n": 10}], [{"lcp": 10, "cache_n": 9}], [{"lcp": 10, "cache_n": 9, "n_tokens": 10}],
    [{"lcp": [8, 10], "cache_n": [4, 9], "n_tokens": [9, 11]}],
    [{"lcp": 10, "cache_n": 8}, {"task": 8, "lcp": 4, "cache_n": 6}], [{"lcp": 10}], [{"cache_n": 10}],
    [{"lcp": [3, None], "cache_n": 2}], [{"end": 3, "prompt_n": [1, 2], "n_tokens": 4}],
    [{"what": TOTAL, "task": None, "says": "half of 9 tokens came from the cache"}],
]  # fmt: skip
"""Statements about requests, of which the headline is a sum."""


def timed(task: int, ms: float, **numbers: Any) -> list[Data]:
    time = {"what": "prompt_time", "task": task, "line": 3, "kind": "read", "prompt_ms": ms}
    return [time, {"task": task, **numbers}]


def lost(lcp: Any = None, **numbers: Any) -> Data:
    return {"lost": 99, **({} if lcp is None else {"lcp": lcp}), **numbers}


def before(n_tokens: Any, end: Any = 40, **more: Any) -> Data:
    return {"task": 5, "n_tokens": n_tokens, "end": end, **more}


FULL = {"what": "full_reprocess", "line": 9, "kind": "read"}
CHECK = {"what": "ckpt_check", "line": 5, "kind": "read"}
FACTS: list[list[Data]] = [
    [*timed(7, 1500, n_tokens=5), *timed(8, 500, n_tokens=5)],
    [*timed(7, 1500, lost=9, prompt_n=30), *timed(8, 500, n_tokens=5)],
    [*timed(7, 1500, lost=9, prompt_n=30), *timed(8, 500, lost=9, prompt_n=1000)],
    [*timed(7, 1500, lost=9, prompt_n=[30, 31])], [*timed(7, 1500, lost=9), *timed(8, 500, lost=9, prompt_n=4)],
    [*timed(7, 49.5, n_tokens=5), *timed(8, 0.0, n_tokens=5)], [*timed(7, 1500, n_tokens=5), {"task": 8, "lost": 9}],
    [{"what": "ended", "task": None, "line": 4, "says": "it fell"}],
    [lost(0, held=9)], [lost(0)], [lost(5, n_tokens=5, held=9)], [lost(9, n_tokens=12, held=9)],
    [lost([7, 9], n_tokens=12, held=[9, 10])], [lost([7, 8], n_tokens=12, held=[9, 10])],
    [lost(7, n_tokens=12, held=9)], [lost([7, None], held=9)], [lost(7)], [lost(5, n_tokens=[5, 6], held=9)],
    [before(20), lost(19, held=40)], [before(20), lost(20, held=40)], [before(20), lost([15, 20], held=40)],
    [before([18, 20]), lost([20, 22], held=40)], [before([18, 20]), lost([18, 22], held=40)],
    [before([18, 20]), lost(17, held=40)], [before([18, 20]), lost(18, held=40)],
    [before([18, None]), lost(25, held=40)],
    [before(20, slot=1), lost(5, held=40)], [before(20, run=1), lost(5, held=40)], [before(20, 41), lost(5, held=40)],
    [before(20, [41, None]), lost(5, held=40)], [before(20, [10, 39]), lost(5, held=40)],
    [before(20, [30, 40]), lost(5, held=[40, 50])],
    [before(20), before(30, task=6), lost(25, task=9, held=40)],
    [before(20), before(30, 60, task=6), lost(25, task=9, held=40)],
    [{"task": task, "lost": size, "lcp": 5} for task, size in ((1, 9), (2, 30), (3, [20, 90]))],
    [{"task": task, "prompt_n": size, "lcp": 5, "held": held}
     for task, size, held in ((1, 90, 0), (2, 30, 4), (3, 9, 4))],
    [{"prompt_n": 50}, {"task": 8, "lcp": 5}],
    [lost(cache_n=8, n_tokens=50)], [lost(cache_n=[8, 9]), CHECK], [{"lost": 0, "cache_n": 8, "prompt_n": 5, "lcp": 5}],
    [lost(cache_n=0), CHECK], [lost(cache_n=0), CHECK, {"what": "cause", "line": 6}],
    [lost(cache_n=8, n_tokens=50), {"what": "ckpt_restore", "kind": "read"}], [lost(n_tokens=50), FULL],
    [lost(), FULL, {"what": "tasks", "task": None, "says": "they are infills"}], [lost()],
]  # fmt: skip
"""Statements, of which follow the time of the prompts, where the costliest one differs, and what it reused."""

CURE = {"slot": 1, "task": 8, "change": "-c 512", "evaluated": 1000, "before": 2000, "rests_on": ["x", "y"]}
NEXT: list[Data] = [
    {}, {"statements": [{"n_tokens": 5}]}, {"line": ""}, {"statements": [{"n_tokens": 5}], "line": ""},
    {"cures": [CURE, CURE], "assumed_options": {"ctx_size": 512}}, {"cures": [{**CURE, "rests_on": []}]},
    {"assumed_options": {"ctx_size": 512}, "line": ""}, {"turns": [{"number": 3, "lost": 5}, {"number": 4, "lost": 9}]},
    {"turns": [{"number": 3, "lost": 5}, {"number": 4, "lost": 9}], "out": "b.toml"}, {"file": "-"},
    {"arguments": ["-p", "x", "--limit", "tokens=5", "--limit", "sought=9"]},
]  # fmt: skip
"""Reports, of which follow a cure, assumed options and the next command."""

CAUSES = [
    {"what": "cause", "line": 3, "task": 1, "cause": "a", "lost": 5, "says": "A"},
    {"what": "cause", "line": 9, "task": 2, "cause": "b", "lost": [7, None], "says": "B"},
    {"what": "cause", "line": 4, "task": 3, "cause": "a", "lost": 50, "says": "A again"},
    {"what": "cause", "line": 5, "task": 4, "cause": "c", "says": "C"},
    {"what": "cause", "line": 6, "task": 4, "cause": "d", "says": "D"},
]
FOLLOWING = [
    {"what": "build", "says": "b9231 or later"}, {"what": "option", "says": "x"}, {"what": "memory", "says": "20 MiB"},
    {"what": "ended", "says": "ended"}, {"what": TOTAL, "line": 5, "task": None, "says": "9 tokens"},
    {"line": 2, "n_tokens": 1_500, "lost": [4, None]},
]
COSTLY = [{"line": task, "task": task, "lost": value} for task, value in enumerate((5, 1, 9, [7, 8], 0), 1)]
READ = [{"what": kind, "line": line, "kind": "read", "says": f"text {line}"}
        for line, kind in enumerate("abbcdefgh", 1)]  # fmt: skip
SECTIONS: list[list[Data]] = [CAUSES, CAUSES[:2], FOLLOWING, COSTLY, READ, READ[:7], READ[:3]]
"""Statements, of which follow the causes, the lines read, and what follows from them."""

EMPTY = {"software": [], "only_others": False, "runs": [{"first": 1, "last": 1200, "known": 9}], "cache": None,
         "entries": [], "checkpoints": [], "evictions": [], "warnings": [], "kinds": {}, "unknown": []}  # fmt: skip


def happened(line: int, what: str = "", slot: int | None = None, **numbers: Any) -> Data:
    return {"line": line, "what": what, "kind": "", "slot": slot, "task": None, "numbers": numbers}


CONTENT_ROWS: list[Data] = [
    {}, {"software": ["a", "b"]}, {"software": ["a"], "only_others": True},
    {"runs": [{"first": 1, "last": 1200}, {"first": 1201, "last": 1300}]},
    {"cache": {"text": " - cache state: x-", "line": 1234}},
    {"entries": [happened(1234, n_tokens=5000, mib=1234.5), happened(2, mib=3), happened(3, n_tokens=5),
                 happened(4, n_tokens=5.5), happened(5)]},
    {"checkpoints": [happened(1, "erased", 3, pos_min=5, pos_max=9), happened(2, "created", pos_min=0),
                     happened(3, "erased", 0, n_tokens=7), happened(4, "erased")]},
    {"evictions": [happened(1, "size limit", n_tokens=5, mib=2.5), happened(2, "part", n_tokens=5),
                   happened(3, "part", mib=2.5), happened(4, "part")]},
    {"entries": [happened(number, n_tokens=number) for number in range(7)],
     "warnings": [{"line": number, "text": "x"} for number in range(8)]},
    {"unknown": [{"line": 1234, "text": "x"}, {"line": 5, "text": "y"}]}, {"unknown": [{"line": 5, "text": "y"}]},
]  # fmt: skip
"""Contents of a log without a request."""

CLIENT = [
    {"cause": "a", "says": "the history was edited", "requests": [1], "lost": 1234, "advice": "do not"},
    {"cause": "b", "says": "a new conversation", "requests": [0], "lost": 0, "advice": "more slots"},
    {"cause": "c", "says": "extends", "requests": list(range(20)), "lost": 5, "advice": ""},
]
CONTRADICTED = [{"line": 7 + n, "what": "ckpt_create", "printed": {"n": n}, "simulated": {"n": 9} if n else None,
                 "by_all": n == 1} for n in range(5)]  # fmt: skip
CONTENTS = {
    "software": ["Ollama"], "only_others": False, "cache": None, "entries": [], "checkpoints": [], "evictions": [],
    "unknown": [], "runs": [{"first": 1, "last": 9}, {"first": 10, "last": 20}],
    "warnings": [{"line": 7, "text": "low memory"}],
}  # fmt: skip
TWO = [request(0), request(1)]
SIMULATED: dict[str, Data] = {
    "nothing re-evaluated": report(TWO, agree=2),
    "some re-evaluated": report(TWO, {"lost": 40, "causes": CLIENT}, agree=1, missing=["the first note", "the second"]),
    "from nothing": report(TWO, {"lost": 40, "from_nothing": [1]}),
    "a single one from nothing": report(TWO, {"lost": 40, "from_nothing": [1], "requests": 1}),
    "forced": report(TWO, {"forced": [*range(13)]}),
    "not compared": report(TWO, {"requests": 0}),
    "without lengths": report([request(0, step=-1)], {"requests": 0}),
    "in part": report(TWO, {"requests": 1}, profile_given=True),
    "undecided": report(TWO, agree=5, differ=2, undecided=3, rejected=True, complete=False, candidates=2),
    "differing": report([request(number, False, assumed=f"why {number}") for number in range(15)], differ=15),
    "rejected": report(TWO, {"lost": 40}, rejected=True, contradicted=CONTRADICTED, candidates=3),
    "adapters": report(TWO, rejected=True, contradicted=[{**CONTRADICTED[0], "what": "lora_clear"}]),
    "with a second cure": report(TWO, cures=[{"change": "--cache-ram 0"}, {**CURE, "request": 1}]),
    "not simulated": report(TWO, line="", contents=CONTENTS),
    "contents and a cause": report(line="", contents=CONTENTS, statements=[said("cause", cause="a", says="why")]),
    "certainty": report([request(0), request(1, False), request(2, None, undecided=True), request(4, assumed="x"),
                         request(3, None, left_out="no length"), request(5, cache_n=None, lcp=0, n_tokens=12),
                         {**request(6), "request": None, "slot": None}]),
}  # fmt: skip
"""Reports with a simulation, by what it shows."""
WITH_TABLE = {"some re-evaluated", "differing", "rejected", "certainty", "contents and a cause"}
"""Reports that are shown with -v, too."""


def shown(rows: Iterable[Data]) -> str:
    """Return statements as a label."""
    return " | ".join(", ".join(f"{name}={value!r}" for name, value in row.items()) or "-" for row in rows)


def sentences() -> Iterator[tuple[str, list[str]]]:
    """Yield each case with its lines."""
    for rows in HEADLINES:
        yield f"headline: {shown(rows)}", [str(headline([said(**row) for row in rows]))]
    for rows in FACTS:
        yield f"facts: {shown(rows)}", [f"{one.what}: {one.says}" for one in facts_first([said(**row) for row in rows])]
    for case in NEXT:
        rows = case.get("statements", [{"lost": 99}])
        found = {**report(), **case, "statements": [said(**row) for row in rows]}
        yield f"next: {shown([case])}", [f"{one.what}: {one.says}" for one in first_lines(found, case.get("out", ""))]
    for rows in SECTIONS:
        statements = [said(**row) for row in rows]
        for everything in (False, True) if rows in (CAUSES, FOLLOWING) else (False,):
            parts = (part(statements, everything) for part in (causes, read_rows, follows_rows))
            yield f"sections{' -v' * everything}: {shown(rows)}", _lines(row for part in parts for row in part)
    for case in CONTENT_ROWS:
        for everything in (False, True) if {"warnings", "unknown"} & {*case} else (False,):
            lines = [str(row) for row in contents_report({**EMPTY, **case}, everything)]
            sizes = (f"{name} {len(part) if isinstance(part, list) else part}" for name, part in case.items())
            yield f"contents{' -v' * everything}: {', '.join(sizes)}", lines
    for name, found in SIMULATED.items():
        short, whole = (_lines([report_rest(found, "", everything)]) for everything in (False, True))
        yield f"report: {name}", short
        if name in WITH_TABLE:
            yield f"report -v: {name}", whole


def _lines(rows: Iterable[RenderableType]) -> list[str]:
    """Return rows as lines of a terminal."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    for row in rows:
        console.print(row)
    return [line for line in console.file.getvalue().splitlines() if line.strip()]  # type: ignore[attr-defined]


def recorded() -> dict[str, list[str]]:
    """Return the cases in the file."""
    parts = FILE.read_text("utf-8").split(f"\n{SIGN}")[1:]
    return {label: lines for label, *lines in map(str.splitlines, parts)}


def text() -> str:
    """Return the file."""
    cases = ("".join([f"\n{SIGN}{label}\n", *(f"{line.rstrip()}\n" for line in lines)]) for label, lines in sentences())
    return f"{HEAD}\n{''.join(cases)}"


if __name__ == "__main__":
    FILE.write_text(text(), "utf-8")
