"""How does a scenario run? Starts the server of a profile and sends the requests, one after the other.

Whoever wants to look (the judge) is told after every request, while the server still holds what it left behind.
"""

from __future__ import annotations

from typing import Any, Callable

from cachesim.engines.base import Answer, Request
from cachesim.engines.registry import EngineKit, engine_of
from cachesim.events import Log
from cachesim.scenarios.schema import Scenario

After = Callable[[EngineKit, Any, Request, Answer], None]
Before = Callable[[EngineKit, Any, Log], None]


def play(scenario: Scenario, profile: str, mode: str, before: Before | None = None, after: After | None = None) -> Log:
    """Run every request of a scenario under a profile. ``mode`` "none", "provenance" or "exact". ``before`` is
    told of the started server, ``after`` of every answer. Returns the whole log. Raises BadInput."""
    kit, log = engine_of(profile), Log()
    server = kit.start(profile, scenario.model, _flags(scenario), mode, log)
    if before is not None:
        before(kit, server, log)
    for step in scenario.steps:
        answer = server.complete(step.request)
        if after is not None:
            after(kit, server, step.request, answer)
    return log


def _flags(scenario: Scenario) -> dict[str, Any]:
    """The server's flags; with ``parallel = -1`` the server itself chooses a unified cache."""
    flags = dict(scenario.server)
    if flags.get("parallel") == -1 and not flags.get("kv_unified"):
        flags.pop("kv_unified", None)
    return flags
