"""Events of the server: changes of the radix tree, evictions, and the turns of the scheduler.

Their records have the form of the recordings: a list that begins with the kind.
"""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.events import Event, frozen


@frozen
class TreeEvent(Event, printed=False):
    """An event that a recording holds as a list of its fields."""

    def row(self) -> list[Any]:
        """Return the event as a recording holds it."""
        names: tuple[str, ...] = self.__match_args__
        return [self.ev, *(getattr(self, name) for name in names)]


@frozen
class Matched(TreeEvent, ev="match"):
    """The tree was searched for ``limit`` tokens of a request: ``hit`` can be reused, ``full`` have slots of full
    attention. ``cow``: 1 if the request gets a copy of the state."""

    request: int
    limit: int
    hit: int
    full: int
    state_branch: int | None
    window_branch: int | None
    cow: int


@frozen
class Inserted(TreeEvent, ev="insert"):
    """``limit`` tokens were inserted; the tree knew ``known`` of them. ``protected``: tokens that the request shares
    with the tree; ``frontier``: tokens without window slots; ``exists``: 1 if the end had a state."""

    limit: int
    protected: int
    frontier: int
    known: int
    exists: int | None


@frozen
class Split(TreeEvent, ev="split"):
    """The first ``length`` tokens of a node became the new node ``upper``."""

    node: int
    upper: int
    length: int


@frozen
class Grown(TreeEvent, ev="new"):
    """A node was added."""

    node: int
    parent: int
    length: int


@frozen
class Gone(TreeEvent, ev="gone"):
    """A node was removed."""

    node: int


@frozen
class Dropped(TreeEvent, ev="drop"):
    """A node of so many tokens lost a part: F, S or M."""

    node: int
    part: str
    tokens: int


@frozen
class Evicted(TreeEvent, ev="evict_for_alloc"):
    """An allocation asked for slots by part; ``freed`` were freed."""

    asked: list[int]
    freed: list[int]


@frozen
class Turn(Event, ev="turn", printed=False):
    """A turn of the scheduler. ``op``: prefill or decode; ``queue``: waiting requests after sorting; ``verdicts`` of
    the candidates; ``run``: request, first and last position, length of a tracked state if there is one."""

    op: str
    queue: list[int]
    verdicts: list[list[Any]]
    run: list[list[int]]
    finished: list[int]
    retracted: Sequence[int] = ()
    oom: Sequence[int] = ()

    def record(self, one_slot: bool = False, tasks: Mapping[int, int] | None = None) -> dict[str, Any]:
        """Return the fields of the step that are present in a recording."""
        named = ("queue", "verdicts", "run") if self.op == "prefill" else ("run",)
        more = {name: value for name in ("retracted", "oom", "finished") if (value := getattr(self, name))}
        return {"op": self.op, **{name: getattr(self, name) for name in named}, **more}
