"""Whole logs of scenarios, with the answer to each request and the caches after it: a text file for each engine.

The scenarios are few that together have every kind of event and every rule of the corpus. After an intended change run
python -m tests.unit.engines.event_logs, and read the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from cachesim.engines.registry import BUILTIN, engine_of, profiles
from cachesim.events import Decided, Event
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import play

FOLDER = Path(__file__).parent
MOST = 20              # runs of an engine
HEAD = "run "


def file_of(engine: str) -> Path:
    """Return the file of an engine."""
    return FOLDER / engine / "event_logs.txt"


def read(engine: str) -> dict[tuple[str, str], list[str]]:
    """Return the lines of the runs in an engine's file, by scenario and rule set."""
    found: dict[tuple[str, str], list[str]] = {}
    for line in file_of(engine).read_text("utf-8").splitlines():
        if line.startswith(HEAD):
            scenario, profile = line.removeprefix(HEAD).split()
            lines = found[scenario, profile] = []
        else:
            lines.append(line)
    return found


def decisions(lines: Iterable[str]) -> list[str]:
    """Return the lines about decisions: rule, value, and the numbers behind it."""
    return [line for line in lines if " because {" in line]


def effects(lines: Iterable[str]) -> list[str]:
    """Return the lines about everything else: what the server did, its answers, and the caches afterwards."""
    return [line for line in lines if " because {" not in line]


def lines_of(scenario: str, profile: str) -> Iterator[str]:
    """Yield the events and answers of a run, a line each."""
    run = run_judged(load(corpus_files()[scenario], {*profiles()}), profile, "provenance")
    for number in range(len(run.requests)):
        for event in run.events(number):
            yield f"  {_event_line(event)}"
        yield _answer_line(run, number)


def _event_line(event: Event) -> str:
    if isinstance(event, Decided):
        return f"{event.rule}: {event.value!r} because {dict(event.because)}"
    return repr(event)


def _answer_line(run: Run, number: int) -> str:
    """Return the answer to a request, its charges, and the caches after it."""
    one = run.requests[number]
    answer, ledger = one.answer, one.ledger
    charges = " ".join(f"{charge}" for charge in ledger.charges)
    after = f"checkpoints {one.checkpoints}, entries {list(one.stored)}, {one.stored_bytes} bytes"
    return (f"request {number}: {answer.status} {answer.error} {dict(answer.reused)} + {answer.prompt_n}, "
            f"{answer.predicted_n} generated, {answer.stop_type}, drafts {answer.draft_n}/{answer.draft_n_accepted}, "
            f"equal to cold {one.judged.equal_cold}, best {ledger.best}, n_past {ledger.n_past}, "
            f"{after}; {charges}")  # fmt: skip


Kinds = list[tuple[str, str]]


def _kinds(scenario: str, profile: str) -> Kinds:
    """Return the kinds of the events and decisions of a run."""
    events = play(load(corpus_files()[scenario], {*profiles()}), profile, "none").events
    return [(type(event).__name__, event.rule if isinstance(event, Decided) else "") for event in events]


def chosen(runs: dict[tuple[str, str], Kinds]) -> list[tuple[str, str]]:
    """Return the runs that add most kinds to those before, measured by their length."""
    found, met = list[tuple[str, str]](), set[tuple[str, str]]()
    while len(found) < MOST:
        run = max(runs, key=lambda one: len({*runs[one]} - met) / (len(runs[one]) + 10))
        if {*runs[run]} <= met:
            break
        found.append(run)
        met |= {*runs[run]}
    return sorted(found)


def write() -> None:
    """Choose runs, and write the files of all engines."""
    kinds: dict[str, dict[tuple[str, str], Kinds]] = {name: {} for name in BUILTIN}
    for name, file in sorted(corpus_files().items()):
        for profile in [*load(file, {*profiles()}).expect]:
            kinds[engine_of(profile).name][name, profile] = _kinds(name, profile)
    for engine, runs in kinds.items():
        lines = (line for run in chosen(runs) for line in (f"{HEAD}{' '.join(run)}", *lines_of(*run)))
        file_of(engine).write_text("".join(f"{line}\n" for line in lines), "utf-8")


if __name__ == "__main__":
    write()
