"""Events of the server: matches and insertions, and the turns of the scheduler."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.engines.sglang.mem_cache.tree_events import TreeEvent
from cachesim.events import Event, frozen


@frozen
class Matched(TreeEvent, ev="match"):
    """The tree was searched for ``limit`` tokens of a request: ``hit`` can be reused, ``full`` have slots of full
    attention; a state or a window at a branch would give a longer hit. ``cow``: 1 if the request gets a state."""

    request: int
    limit: int
    hit: int
    full: int
    state_branch: int | None
    window_branch: int | None
    cow: int


@frozen
class Inserted(TreeEvent, ev="insert"):
    """``limit`` tokens were inserted, ``known`` of them were there, the first ``protected`` by the same request; those
    before ``frontier`` have no window slots. ``exists``: 1 if the end had a state."""

    limit: int
    protected: int
    frontier: int
    known: int
    exists: int | None


@frozen
class SchedulerStep(Event, ev="turn", printed=False):
    """A step of the scheduler: the queue, verdicts of the candidates, parts, requests that ended or were put back."""

    op: str
    queue: list[int]
    verdicts: list[list[Any]]
    run: list[list[int]]
    finished: list[int]
    retracted: Sequence[int] = ()
    oom: Sequence[int] = ()

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the fields that a recording has."""
        named = ("queue", "verdicts", "run") if self.op == "prefill" else ("run",)
        more = {name: value for name in ("retracted", "oom", "finished") if (value := getattr(self, name))}
        return {"op": self.op, **{name: getattr(self, name) for name in named}, **more}
