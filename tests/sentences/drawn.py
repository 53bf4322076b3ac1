"""Drawn runs for the comparison of sentences: every engine and rule set, with refused and cancelled requests, context
shifts and named slots."""

from __future__ import annotations

from typing import Any, NamedTuple

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.schema import Scenario
from cachesim.tools.search.drawn_conversation import draw_conversation

ORDER = ("llama_cpp", "ik_llama", "mlx_lm", "vllm", "sglang")
SHIFTS: dict[str, dict[str, Any]] = {
    "llama_cpp": {"context_shift": True, "ctx_size": 96}, "ik_llama": {"context_shift": True, "ctx_size": 96},
}  # fmt: skip
"""Options under which answers reach the end of the context."""
SMALL: dict[str, dict[str, Any]] = {
    "llama_cpp": {"context_shift": False, "ctx_size": 96}, "ik_llama": {"context_shift": False, "ctx_size": 96},
    "vllm": {"max_model_len": 48}, "sglang": {"context_length": 48},
}  # fmt: skip
"""Options under which long prompts are refused."""


class DrawnRun(NamedTuple):
    """A scenario, its profile, and what it contains."""

    scenario: Scenario
    profile: str
    features: list[str]


def draw_run(number: int, engine: str = "") -> DrawnRun | None:
    """Return the run of an integer, None if no rule set of its engine can run it."""
    seed = number if engine else number // len(ORDER)
    engine = engine or ORDER[number % len(ORDER)]
    names = [*ENGINES[engine].line, *ENGINES[engine].beside]
    newest = ENGINES[engine].newest or ENGINES[engine].line[-1]
    profile = newest if seed % 3 == 0 else names[seed % len(names)]
    more = (SHIFTS, SMALL, {}, {})[seed % 4].get(engine, {})
    known = {flag.name for flag in ENGINES[engine].manual.flags}
    options = [f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in more.items()
               if name in known]  # fmt: skip
    try:
        scenario = draw_conversation(seed, engine, tuple(options)).scenario(profile)
    except BadInput:
        return None
    return DrawnRun(scenario, profile, [engine, *_features(scenario, options)])


def _features(scenario: Scenario, options: list[str]) -> list[str]:
    requests = [step.request for step in scenario.steps if step.action is None]
    found = {
        "cancelled": any(one.cancel_at is not None for one in requests),
        "named slots": any(one.id_slot >= 0 for one in requests),
        "context shifts": any("context_shift=true" in one for one in options),
    }  # fmt: skip
    return [name for name, has in found.items() if has]
