"""Requests of recordings with images under the repaired rule set: right or refused, and no process ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cachesim.engines.registry import engine_of, profiles, rules_of
from cachesim.events import Log
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.replay.command import checker

SHARED = Path(__file__).parents[3] / "shared" / "traces"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")]
OLD, REPAIRED = "llama_cpp@b11549", "llama_cpp@b11549-repaired"


def outcomes(path, rules, folder):
    """Return how the requests of a recording end under a rule set: right, wrong, "died" or the status of the error."""
    trace, check = read_trace(path, profiles()), checker()
    server = engine_of(OLD).start(rules, trace.model, trace.flags, "provenance", Log())
    found = Counter()
    for step in trace.steps:
        if step.action == "lora":
            server.set_adapters(step.scales)
        elif step.action:
            server.slot(step.action, step.id_slot, folder / step.file if step.file else None)
        sent = [(one.request, server.submit(one.request)) for one in step.members]
        while not all(answer.done for _, answer in sent):
            server.take_tasks()
            server.update()
        for request, answer in sent:
            if answer.died or answer.status != 200:
                found["died" if answer.died else answer.status] += 1
            else:
                found["wrong" if check(server, request, answer) is False else "right"] += 1
    return found


@pytest.mark.parametrize(("profile", "expected"), [
    (OLD, {"right": 646, "wrong": 14, 400: 12, 500: 3, "died": 3}), (REPAIRED, {"right": 661, 400: 17}),
])  # fmt: skip
def test_recorded_requests_with_images(tmp_path, profile, expected):
    rules = rules_of(profile)
    files = sorted((SHARED / "llama_cpp_media").glob("*.json"))
    assert sum((outcomes(path, rules, tmp_path) for path in files), Counter()) == expected


@pytest.mark.parametrize(("name", "fields"), [
    ("llama_cpp_lora/gemma3-lora-alora_global-120020", ("kv_full",)),          # --swa-full and an entry
    ("llama_cpp_media/gemma3-media-two_slots-160005", ("kv_undo",)),           # M8
])  # fmt: skip
def test_a_single_repair_cures_what_neither_adapters_nor_images_cause(tmp_path, name, fields):
    old, repaired = rules_of(OLD), rules_of(REPAIRED)
    keyed = [field for field in repaired.fields() if field.startswith(("adapters.", "media."))]
    path = SHARED / f"{name}.json"
    assert outcomes(path, old.mixed(repaired, keyed), tmp_path)["wrong"] > 0
    assert outcomes(path, old.mixed(repaired, [*keyed, *fields]), tmp_path)["wrong"] == 0
