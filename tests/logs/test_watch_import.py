"""``watch LOG`` states the numbers, causes and first lines that ``import LOG`` states: both read the same facts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Sequence

import pytest

from cachesim.model.hash_mixing import Rng
from cachesim.tools.server_logs.facts.client_changes import SlotPrompts
from cachesim.tools.server_logs.facts.conclusions import conclude
from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.import_log import import_log
from cachesim.tools.server_logs.lines.recognise import grammars
from cachesim.tools.server_logs.report.first_lines import facts_first
from cachesim.tools.server_logs.report.headline import headline
from cachesim.tools.watch.log_rows import LogRows
from tests.logs.slow_logs.people_cuts import PEOPLE_CUTS
from tests.logs.slow_logs.recorded_log import read_folder
from tests.shared import ROOT, SHARED, absent

Row = dict[str, Any]
SAMPLE = ROOT / "tests" / "logs" / "slow_logs" / "sample"
OWN = [*sorted((ROOT / "tests/unit/tools/server_logs").glob("*.log")), *sorted(SAMPLE.glob("*.log"))]
KINDS, SLOW = SHARED / "logs" / "kinds", SHARED / "logs" / "slow"
COLUMNS = {"prompt": "n_tokens", "reused": "cache_n", "evaluated": "prompt_n", "generated": "predicted_n",
           "again": "lost"}  # fmt: skip
CUTS = 8                     # excerpts of each log


def watched(lines: Sequence[str], is_once: bool = True) -> tuple[LogRows, list[Row]]:
    """Return the rows of a log that ends, and their reader."""
    reader = LogRows()
    rows = [row for line in lines for row in reader.read([line])]
    return reader, [*rows, *reader.rest()]


def differences(lines: Sequence[str]) -> Iterator[str]:
    """Yield what ``watch`` and the conclusions of ``import`` state differently about these lines."""
    reader, rows = watched(lines)
    if not reader.engine:
        return
    session = read_session(reader.engine, grammars()[reader.engine], lines)
    said = [one.as_data() for one in conclude(session).statements]
    numbers: dict[Any, dict[str, Any]] = {}
    causes: dict[Any, list[str]] = {}
    for one in said:
        if one["what"] == "request":
            numbers.setdefault(place(one), {}).update(one["numbers"])
        if one["what"] == "cause" and one["numbers"]["cause"] != "server-warning":
            causes.setdefault(place(one), []).append(one["says"])
    for row in rows:
        stated = numbers.get(place(row), {})
        for column, name in COLUMNS.items():
            is_kept = column == "again" and row["again"] == 0 and name not in stated
            if row[column] != stated.get(name) and not is_kept:
                yield f"task {row['task']}: {column} {row[column]}, import states {stated.get(name)}"
        found, expected = (Counter(texts) for texts in ([one["says"] for one in row["causes"]],
                                                        causes.get(place(row), [])))  # fmt: skip
        if found != expected:
            yield f"task {row['task']}: causes {found}, import states {expected}"
    yield from differences_of_requests(session, rows)
    yield from differences_of_first_lines(session, reader, said)


def place(found: Any) -> tuple[Any, ...]:
    """Return what identifies a request; its first line if no task names it."""
    first = found["first_line"] if "first_line" in found else found["lines"][0]
    return found["run"], found["slot"], found["task"], first if found["task"] is None else None


def place_of(run: int, request: LoggedRequest) -> tuple[Any, ...]:
    """Return what identifies a request of a server run."""
    slot = request.slot if request.is_slot_known else None
    return run, slot, request.task, request.lines[0] if request.task is None else None


def differences_of_requests(session: LogSession, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the requests of ``import`` without exactly one row with its class of change."""
    runs = sorted((session, *session.others), key=lambda run: [line.number for line in run.read_lines[:1]])
    expected = Counter(place_of(number, one) for number, run in enumerate(runs) for one in run.requests)
    found = Counter(place(row) for row in rows)
    if expected != found:
        yield f"requests {expected - found} of import have no row, rows {found - expected} no request"
    changes = {}
    for number, run in enumerate(runs):
        prompts = SlotPrompts()
        for one in run.requests:
            changes[place_of(number, one)] = prompts.change(one)
    for row in rows:
        if row["slot"] is not None and row["change"] != changes.get(place(row)):
            yield f"task {row['task']}: change {row['change']}, import states {changes.get(place(row))}"


def differences_of_first_lines(session: LogSession, reader: LogRows, said: Sequence[Row]) -> Iterator[str]:
    expected = [headline(said).plain, *(line.says for line in facts_first(said))]
    if session.read_lines and not session.others and reader.first_lines() != expected:
        yield f"first lines {reader.first_lines()}, import states {expected}"


def lines_of(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines()


@pytest.mark.parametrize("file", OWN, ids=lambda file: file.stem)
def test_a_log_gets_the_statements_of_import(file):
    assert list(differences(lines_of(file))) == []


@pytest.mark.skipif(not KINDS.exists(), reason=absent(KINDS))
def test_logs_of_all_kinds_get_the_statements_of_import():
    files = [*sorted(KINDS.glob("*.log")), *sorted(SLOW.glob("*.log")), *sorted(SHARED.glob("logs/*.log"))]
    assert len(files) > 40
    assert {file.name: found for file in files if (found := list(differences(lines_of(file))))} == {}


@pytest.mark.parametrize("log", read_folder(SAMPLE), ids=lambda log: log.name)
@pytest.mark.long
def test_excerpts_get_the_statements_of_import(log):
    wrong = []
    for number in range(CUTS):
        for name, cut in PEOPLE_CUTS.items():
            lines = cut(Rng(number, f"{log.name} {name}"), log)
            wrong += [f"{name} {number}: {one}" for one in differences(lines)]
    assert wrong == []


def turns_and_rows(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the classes that the report of ``import`` and the rows of ``watch`` have for the same request."""
    data, _ = import_log(file)
    rows = {(row["slot"], row["task"]): row for row in watched(lines_of(file))[1]}
    turns = {turn["number"]: turn["how"] for turn in data["turns"]}
    for request in data["requests"]:
        if request["request"] in turns:
            yield turns[request["request"]], rows[request["slot"], request["task"]]["change"]


@pytest.mark.parametrize("name", [
    "qwen35-strip_reasoning-default", "llama-alternate-default", "gemma3-edit_early-default",
])  # fmt: skip
def test_a_row_has_the_clients_change_of_the_report(name):
    pairs = list(turns_and_rows(SAMPLE / f"{name}.log"))
    assert len(pairs) > 3 and [how for how, _ in pairs] == [change for _, change in pairs]


@pytest.mark.long
@pytest.mark.skipif(not SLOW.exists(), reason=absent(SLOW))
def test_rows_have_the_clients_changes_of_the_reports_on_the_shared_logs():
    for file in [*sorted(SLOW.glob("*.log")), *sorted(KINDS.glob("*.log"))]:
        assert [(how, how) for how, _ in turns_and_rows(file)] == list(turns_and_rows(file)), file.name
