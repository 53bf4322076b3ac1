"""Export as a scenario file with the results of a rule set, and observations of a real server for an issue."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from cachesim.base.escaping import markdown_text, toml_string
from cachesim.engines.llama_cpp.log_events import entries, read_event
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.tools.live.llama_server.export.issue import ObservedRun
from cachesim.tools.live.llama_server.export.script import Script
from cachesim.tools.live.llama_server.export.talk import ReuseVerdict, judge_reuse
from cachesim.tools.live.llama_server.process import version_text
from cachesim.tools.live.llama_server.recorder import Recorder, ServerStart
from cachesim.tools.live.llama_server.server import OURS
from cachesim.tools.live.player import Player

# Observations of a real server: its version, the result of each request, and lines of its log.

LINES = 60          # most lines of the log
PROMPT_TIME = re.compile(r"prompt eval time = *([0-9.]+) ms /")
NO_TIMINGS: Mapping[str, float] = {}


def observed(script: Script, binary: Path, gguf: Path) -> ObservedRun:
    """Run the case on a server that is started for it. Raise BadInput."""
    player = Player(script.scenario)
    came, log, costs = list[str](), list[str](), list[str]()
    start = ServerStart(binary, gguf, script.flags, "")
    with Recorder(start, rounding=script.tolerance) as recorder:
        said = _Log(recorder.log_file)
        for number, done in player.run(recorder.play):
            lines = said.more()
            members = done.get("steps", [done])
            came += _came(script, number, done, recorder.inexact)
            lost = [verdict for verdict in _reuse(script, number, members, said.timings) if verdict.shows]
            costs += [verdict.cost for verdict in lost if verdict.cost]
            is_cause = script.loss is not None and number in script.loss.causes
            wrong = any(f"{one['i']}".partition(".")[0] == f"{done['i']}" for one in recorder.inexact)
            if lost or is_cause or wrong:
                log += [f"... request {number}", *lines]
        is_wrong = bool(recorder.inexact)
    return ObservedRun(version(binary), came, log[:LINES], costs, is_wrong)


def _reuse(
    script: Script, number: int, members: Sequence[Mapping[str, Any]], timings: Mapping[str, float] = NO_TIMINGS
) -> Iterator[ReuseVerdict]:
    """Yield the verdicts on the reuse of the requests that a step sends. ``timings``: evaluated tokens and milliseconds
    of the only one of them."""
    for at, member in enumerate(members, number):
        if script.loss is None or at not in script.loss.numbers:
            continue
        response = member.get("response") or {}
        counts = {name: response[name] for name in ("cache_n", "prompt_n") if name in response}
        reported = {**counts, **(timings if len(members) == 1 else {})}
        yield judge_reuse(at, reported, script.loss.numbers[at], script.loss.label, script.loss.mark)


def version(binary: Path) -> str:
    """Return the version line of a server. Raise BadInput."""
    found = re.search(r"^version: .*$", version_text(binary), re.M)
    return found[0] if found else "unknown version"


def _came(script: Script, number: int, done: Mapping[str, Any], inexact: list[dict[str, Any]]) -> Iterator[str]:
    for at, member in enumerate(done.get("steps", [done]), number):
        response = member.get("response") or {}
        wrong = next((one for one in inexact if one["i"] == member.get("i", done["i"])), None)
        counts = f"cache_n {response['cache_n']}, evaluated {response['prompt_n']}: " if "cache_n" in response else ""
        if "died" in done:
            end = f"the process ends: {markdown_text(' / '.join(done['died']['fatal'])) or 'no message'}"
        elif response.get("status", 200) != 200:
            end = f"HTTP {response['status']} {markdown_text(str(response.get('error', {}).get('message', '')))}"
        elif wrong:
            end = _compared(member.get("cold") or {})
        else:
            reuse = next(_reuse(script, at, [member]), None)
            end = markdown_text(reuse.text) if reuse else "" if script.loss else "correct answer"
        yield f"{at}. {counts}{end}".removesuffix(": ")


def _compared(cold: Mapping[str, Any]) -> str:
    far = f"log-probabilities differ by {cold['max_dlogprob']} from a cold run" if "max_dlogprob" in cold else ""
    token = "" if cold.get("equal", True) else f"token {cold.get('first_diff', 0)} differs from a cold run"
    return "WRONG: " + " and ".join(filter(None, (token, far)))


class _Log:
    """Incremental reader of a log. ``timings``: time of the newest prompt, as a reply reports it [ms]."""

    def __init__(self, file: Path) -> None:
        self.file, self.at = file, 0
        self.timings: Mapping[str, float] = NO_TIMINGS
        self.more()

    def more(self) -> list[str]:
        """Return the new lines that report a decision, a warning or an error."""
        with self.file.open("rb") as stream:
            stream.seek(self.at)
            data = stream.read()
        self.at += len(data)
        text = data.decode("utf-8", "replace")
        took = [float(found[1]) for found in PROMPT_TIME.finditer(text)]
        self.timings = {"prompt_ms": took[-1]} if took else NO_TIMINGS
        return [line for line in text.splitlines() if _matters(line)]


def _matters(line: str) -> bool:
    found = entries(line) if not line.startswith("\t") else ()
    return any((read_event(one) is not None or one.level in "WE") and OURS not in one.text for one in found)


def scenario_file(scenario: Scenario, profile: str, name: str) -> str:
    """Return the text of the file ``name``.toml. Raise BadInput if the scenario cannot run under the profile."""
    run = run_judged(scenario, profile, "provenance", with_ledger=False)
    why = scenario.why or f"Requests {scenario!r} under {profile}."
    symptom = {"symptom": scenario.symptom} if scenario.symptom else {}
    head = {"id": name, "title": scenario.title, **symptom, "source": list(scenario.source), "why": why,
            "engine": scenario.engine, "model": scenario.model, "profiles": [profile]}  # fmt: skip
    text = to_toml(head, scenario.server, scenario.words, [step.asked for step in scenario.steps], scenario.titles)
    return "\n".join([text, f"[expect.{toml_string(profile)}]", *_expected(run), ""])


def _expected(run: Run) -> Iterator[str]:
    answers = [one.answer for one in run.requests]
    yield f"cache_n = {[one.cache_n for one in answers]}"
    yield f"prompt_n = {[one.prompt_n for one in answers]}"
    if run.broken:
        yield f"broken = {run.broken}"
    if run.unsettled:
        yield f"undecided = {run.unsettled}"
    status = [one.status for one in answers]
    if set(status) != {200}:
        yield f"status = {status}"
    died = [number for number, one in enumerate(answers) if one.died]
    if died:
        yield f"died = {json.dumps(died)}"
    yield f"checkpoints = {[one.checkpoints for one in run.requests]}"
