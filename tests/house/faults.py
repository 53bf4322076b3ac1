"""Entries of FAULTS.md and the evidence that each gives: recordings, comparisons, outputs of a real server.

The last sentence of an entry is ``Evidence: ...``, several pieces separated by ``;``:
  recording llama_cpp/NAME.json step N   the real server's answer differs from a cold run, or the server ended
  recording llama_cpp/NAME.json step N (reuse)   the answer is correct; the decision is in the log
  scenario ID on b11549   stored output of an unchanged real server, in scenarios/evidence/b11549.json
  report NAME   proof.txt of scenarios/reports: an unchanged real server shows the fault
  compared with mlx-lm 0.32.2   tests/peers runs the real code side by side

``python -m tests.house.faults`` moves entries without evidence below "predicted", and those with evidence back.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Iterator, NamedTuple

from tests.evidence.digests import of_case
from tests.shared import ROOT, TRACES

FAULTS = ROOT / "scenarios" / "FAULTS.md"
EVIDENCE = ROOT / "scenarios" / "evidence"
PREDICTED = re.compile(r"predicted", re.IGNORECASE)
REPORTED = re.compile(r"reported faults")
THREAD = re.compile(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+\)")
SHOWS = "THE FAULT SHOWS"
RECORDING = re.compile(r"recording (\S+\.json) step (\d+)( \(reuse\))?")
SCENARIO = re.compile(r"scenario ([\w-]+) on ([\w.-]+)")
REPORT = re.compile(r"report ([\w-]+)")
COMPARED = re.compile(r"compared with (mlx-lm) ([\w.]+)")


class Fault(NamedTuple):
    """An entry: its anchor, the heading of its section, its text in a line, its pieces of evidence."""

    name: str
    section: str
    text: str
    evidence: tuple[str, ...]


def faults(text: str) -> Iterator[Fault]:
    """The entries of a page."""
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        parts = re.split(r"^### (\S+)$", body, flags=re.MULTILINE)
        for name, entry in zip(parts[1::2], parts[2::2], strict=True):
            line = " ".join(entry.split())
            told = line.partition("Evidence: ")[2].rstrip(".")
            yield Fault(name, heading, line, tuple(filter(None, (one.strip() for one in told.split(";")))))


def in_place(text: str) -> str:
    """The page with every entry where it belongs."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kept: dict[str, list[str]] = {}
    moved: dict[str, list[str]] = {}
    back: dict[str, list[str]] = {}
    for section in sections:
        heading, *entries = re.split(r"^(?=### )", section, flags=re.MULTILINE)
        title = heading.split("\n")[0].removeprefix("## ")
        engine = title.partition(":")[0]
        kept[title] = []
        for entry in entries:
            (fault,) = faults(f"## {title}\n\n{entry}")
            wrong = misplaced(fault)
            place = (back if fault.evidence else moved) if wrong else kept
            place.setdefault(title if place is kept else engine, []).append(entry.strip())
    for engine, entries in moved.items():
        kept.setdefault(f"{engine}: predicted, not seen on a real server", []).extend(entries)
    for engine, entries in back.items():
        kept[next(title for title in kept if title.startswith(engine))] += entries
    titles = sorted(kept, key=lambda title: [one.partition(":")[0] for one in kept].index(title.partition(":")[0]))
    return head + "\n\n".join("\n\n".join([f"## {title}", *kept[title]]) for title in titles if kept[title]) + "\n"


def misplaced(fault: Fault) -> str:
    """Return why an entry is in the wrong section, "" = it is not: an entry without evidence belongs under "Predicted",
    unless it is a report that names its thread."""
    predicted = bool(PREDICTED.search(fault.section))
    if fault.evidence:
        return f"{fault.name} gives evidence and stands under {fault.section!r}" if predicted else ""
    reported = bool(REPORTED.search(fault.section) and THREAD.search(fault.text))
    return "" if predicted or reported else f"{fault.name} gives no evidence"


def doubt(piece: str, evidence: Path = EVIDENCE) -> str:
    """Return why a piece of evidence shows nothing, "" if it does. A missing recording is trusted."""
    if found := RECORDING.fullmatch(piece):
        return _of_recording(found[1], int(found[2]), bool(found[3]))
    if found := SCENARIO.fullmatch(piece):
        return _of_scenario(found[1], evidence / f"{found[2]}.json")
    if found := REPORT.fullmatch(piece):
        proof = ROOT / "scenarios" / "reports" / found[1] / "proof.txt"
        return "" if proof.is_file() and SHOWS in proof.read_text("utf-8") else f"{found[1]} shows no fault"
    if found := COMPARED.fullmatch(piece):
        transcripts = (ROOT / "tests" / "data" / "mlx_lm").glob(f"*-{found[2]}.json")
        return "" if any(transcripts) else f"missing transcript of {found[1]} {found[2]}"
    return f"not a piece of evidence: {piece!r}"


def recording(name: str) -> Path | None:
    """A recording of the selection, or of the whole set if it is here."""
    return next((path for root in (ROOT / "tests" / "data", TRACES) if (path := root / name).is_file()), None)


@cache
def _steps(path: Path) -> dict[int, bool]:
    """Map the steps of a recording to whether an answer differs from a cold run or the server ended."""
    data = json.loads(path.read_text("utf-8"))
    wrong = {int(str(one["i"]).partition(".")[0]) for one in data.get("inexact", ())}
    return {step["i"]: step["i"] in wrong or "died" in (step.get("op"), *step) for step in data["steps"]}


def _of_recording(name: str, number: int, reuse: bool) -> str:
    path = recording(name)
    if path is None:
        return f"no recording {name}" if TRACES.is_dir() else ""
    steps = _steps(path)
    if number not in steps:
        return f"{name} has no step {number}"
    return "" if reuse or steps[number] else f"step {number} of {name} is not wrong"


def _of_scenario(name: str, file: Path) -> str:
    """Return why the stored output of a real server is not evidence: another scenario, or another result."""
    if not file.is_file():
        return f"no output of {file.stem}"
    stored = json.loads(file.read_text("utf-8"))["scenarios"].get(name)
    if stored is None:
        return f"{file.stem} has no scenario {name}"
    scenario = next((ROOT / "scenarios").rglob(f"{name}.toml"), None)
    if scenario is None or of_case(scenario) != stored["scenario"]:
        return f"{name} has changed since {file.stem} ran it"
    if not stored["as_simulated"]:
        return f"{file.stem} did otherwise than simulated in {name}"
    return ""


if __name__ == "__main__":
    FAULTS.write_text(in_place(FAULTS.read_text("utf-8")), "utf-8")
