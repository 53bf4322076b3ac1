"""Wrong answers and reuse of a real llama-server b11549 with adapters, as its recordings count them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Self

import pytest

from cachesim.engines.registry import engine_of, profiles
from cachesim.events import Log
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.replay.command import checker

SHARED = Path(__file__).parents[3] / "shared" / "traces" / "llama_cpp_lora"
RANDOM = "*-lora-*-12????.json"              # workloads with a seed; the others are hand-written cases


class Count(NamedTuple):
    """Answers that a server without a cache answered too: those that differ, and their prompt tokens."""

    wrong: int = 0
    compared: int = 0
    reused: int = 0
    asked: int = 0

    def __add__(self, more: Self) -> Self:       # type: ignore[override]
        return type(self)(*(a + b for a, b in zip(self, more, strict=True)))


def requests(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each request of a recording, also those that were sent at once."""
    for step in steps:
        yield from step.get("steps", [step])


def count(path: Path) -> tuple[str, Count]:
    """Return the workload of a recording, and what it counts."""
    data = json.loads(path.read_text())
    answers = [one["response"] for one in requests(data["steps"]) if "cold" in one]
    reused, evaluated = (sum(answer[name] for answer in answers) for name in ("cache_n", "prompt_n"))
    return data["workload"], Count(len(data["inexact"]), len(answers), reused, reused + evaluated)


@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
def test_a_server_that_does_not_key_its_cache_by_adapters_answers_wrong():
    found = [count(path) for path in sorted(SHARED.glob(RANDOM))]
    plain = sum((one for name, one in found if not name.startswith("alora")), Count())
    activated = sum((one for name, one in found if name.startswith("alora")), Count())
    assert len(found) == 88
    assert plain == Count(73, 428, 28_567, 85_293)
    assert activated == Count(50, 220, 12_641, 33_997)
    assert sum((one for name, one in found if name == "personas"), Count())[::2] == (0, 5_563)


def again(path: Path, rules: str, folder: Path) -> Count:
    """Return what the requests of a recording count under a rule set. Each answer has the recorded tokens."""
    trace, check = read_trace(path, profiles()), checker()
    server = engine_of(rules).start(rules, trace.model, trace.flags, "provenance", Log())
    found = Count()
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
            if answer.status == 200:
                found += Count(check(server, request, answer) is False, 1, answer.cache_n,
                               answer.cache_n + answer.prompt_n)  # fmt: skip
    return found


@pytest.mark.long
@pytest.mark.skipif(not SHARED.exists(), reason="../shared/traces is not there")
@pytest.mark.parametrize(("pattern", "rules", "expected"), [
    ("*-lora-alora_*", "b11549-lora-tried", (25, 220, 12_743, 33_997)), ("*-lora-alora_*", "b11549-repaired", (0, 220)),
    ("*-lora-personas-*", "b11549-lora-tried", (0, 63, 9_189, 17_598)), ("*-lora-bug-*", "b11549-lora-tried", (0,)),
    ("*-lora-[cfgps]*-12????", "b11549-lora-tried", (0, 428)), ("*-lora-[cfgps]*-12????", "b11549-repaired", (0, 428)),
])  # fmt: skip
def test_a_cache_that_is_keyed_by_adapters_answers_right(tmp_path, pattern, rules, expected):
    found = sum((again(path, f"llama_cpp@{rules}", tmp_path) for path in sorted(SHARED.glob(f"{pattern}.json"))),
                Count())  # fmt: skip
    assert found[: len(expected)] == expected
