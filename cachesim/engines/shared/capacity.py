"""Options that set how much a server's caches hold, and the policies for which one run tells the reuse with all sizes.

Each engine whose caches have a size has a ``CapacityForms``, which the contract names. A curve runs a workload with
several values of such an option.
"""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Sequence

from cachesim.engines.capabilities import Option, RequestSize, ServerLoad
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.events import Event

MIB = 1 << 20


class CapacityQuestion(NamedTuple):
    """A server whose sizes are sought: all its options by name, its load, and the bytes of a token's rows in its layers
    of attention; 0 = unknown."""

    options: Mapping[str, Any]
    load: ServerLoad
    token_bytes: int = 0


class CapacitySize(NamedTuple):
    """An option that sets a size. ``option``: its name; ``unit``: what it counts, in the plural; ``values``: the
    smallest and the largest value that a curve tries. ``filled``: the server derives the value from the memory of its
    device if it is not given."""

    option: str
    unit: str
    values: Callable[[CapacityQuestion], tuple[int, int]]
    filled: bool = False


class StackServer(NamedTuple):
    """A server whose reuse with other sizes is sought: its rules, the layers of its model, the options given, and the
    requests in the order in which they arrive, one after the other."""

    rules: RuleSet
    model: str
    options: Mapping[str, Option]
    requests: Sequence[RequestSize]


class StackDistances(NamedTuple):
    """The reuse with every size of an option from one run with room for everything. A policy allows it if the contents
    with a size are always among those with a larger size (Mattson and others, 1970, "Evaluation techniques for storage
    hierarchies").

    ``obstacle``: why one run does not tell it for this server, as a clause; "" = it does. ``least``: the smallest value
    for which it does, because smaller ones refuse or delay requests. ``lost_tokens``: the tokens that the server
    evaluates with each of these ascending values and did not evaluate in the run with these events."""

    option: str
    obstacle: Callable[[StackServer], str]
    least: Callable[[StackServer], int]
    lost_tokens: Callable[[StackServer, Sequence[Event], Sequence[int]], list[int]]


class CapacityForms(NamedTuple):
    """Sizes of an engine, the one of its device first. ``stack``: what one run tells, None = ``direct`` says why each
    size needs a run of its own, as a clause. ``shared``: options of which one server has as much as several have
    together, if it has their memory."""

    sizes: Sequence[CapacitySize]
    shared: Sequence[str]
    stack: StackDistances | None = None
    direct: str = ""


def conversation_mib(question: CapacityQuestion) -> tuple[int, int]:
    """Return 0 and the MiB of all conversations at their longest; an ample number if the bytes of a token are not
    known."""
    if not question.token_bytes:
        return 0, 1 << 16
    return 0, max(1, -(-question.load.total * question.token_bytes // MIB))


def number_of_conversations(question: CapacityQuestion) -> tuple[int, int]:
    """Return 1 and the number of conversations."""
    return 1, max(1, question.load.conversations)
