"""A case as a scenario file, with what one rule set does in it: ``load`` reads it back."""

from __future__ import annotations

import json
from typing import Any, Iterator

from cachesim.engines.shared.vocab import PIECES
from cachesim.judging.judged_run import Run, run_judged
from cachesim.scenarios.schema import Scenario
from cachesim.scenarios.toml_writer import to_toml
from cachesim.scenarios.word_tokens import Words


def scenario_file(scenario: Scenario, profile: str, name: str) -> str:
    """The text of the file ``name``.toml. Raises BadInput for a scenario that cannot run under the profile."""
    run = run_judged(scenario, profile, "provenance", bills=False)
    why = scenario.why or f"Requests {scenario!r} under {profile}."
    symptom = {"symptom": scenario.symptom} if scenario.symptom else {}
    head = {
        "id": name, "title": scenario.title, **symptom, "source": list(scenario.source), "why": why,
        "engine": scenario.engine, "model": scenario.model, "profiles": [profile],
    }  # fmt: skip
    spelled = scenario.words.spelled if isinstance(scenario.words, Words) else {}
    words: dict[str, Any] = {
        word: [PIECES[token] for token in spelled[word]] if word in spelled else length
        for word, length in scenario.words.items()
    }
    text = to_toml(head, scenario.server, words, [step.asked for step in scenario.steps])
    return "\n".join([text, f'[expect."{profile}"]', *_expected(run), ""])


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
