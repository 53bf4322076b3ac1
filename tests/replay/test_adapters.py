"""Wrong answers and reuse of a real llama-server b11549 with adapters, as its recordings count them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Self

import pytest

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
