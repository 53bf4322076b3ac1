"""What is a scenario? Its dataclasses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Mapping, NamedTuple

from cachesim.engines.base import Request
from cachesim.engines.manual import Option
from cachesim.engines.registry import ENGINES

Allowed = tuple[int, ...]
"""The values that an expectation accepts: one, or several where the engine leaves freedom (``either``)."""

DEFAULT_PROFILE = next(iter(ENGINES.values())).newest
"""The rule set of a command that names none: the newest recorded one of the first engine."""

ROLES = ("system", "user", "assistant", "tool")
TASKS = ("completion", "infill", "embedding", "rerank")
ACTIONS = ("save", "restore", "erase", "restart")

@dataclass(frozen=True, slots=True)
class Action:
    """A step that is no completion: ``do`` one of ACTIONS, on slot ``id_slot`` (-1 = the whole server), with the file
    named ``file`` in the run's own folder. ``server`` are options that change with a restart."""

    do: str
    id_slot: int = -1
    file: str = ""
    server: tuple[tuple[str, Option], ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or the ``action`` in its place (the request is empty then).

    ``text`` is the request in the one-line notation, without the lengths of words; what the notation has no sign for
    stands behind it in braces. ``drafts`` are pairs (drafted, accepted) in the order of the iterations. ``together``:
    sent while the step before is at work, ``after`` iterations of the server's loop later.
    """

    request: Request
    text: str
    why: str = ""
    action: Action | None = None
    drafts: tuple[tuple[int, int], ...] = ()
    together: bool = False
    after: int = 0

    @property
    def prompt(self) -> str:
        """The words of the prompt alone, or the action, for a table."""
        return self.text if self.action else re.split("[>!@{]", self.text, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class Expect:
    """What one profile is expected to do, an entry per step. None = nothing is expected.

    ``broken`` lists the steps (from 0) whose answer differs from a cold run, ``died`` those that the server's process
    did not survive or that found it dead; ``slots`` are slot ids, ``status`` HTTP codes, ``entries`` how many
    conversations are stored; ``undecided`` the steps whose outcome depends on a number that the server never wrote
    (their numbers leave freedom). ``completed`` marks numbers that were written by a run and that no human has read
    yet.
    """

    cache_n: tuple[Allowed, ...] | None = None
    prompt_n: tuple[Allowed, ...] | None = None
    broken: tuple[int, ...] = ()
    checkpoints: tuple[tuple[int, ...], ...] | None = None
    slots: tuple[Allowed, ...] | None = None
    status: tuple[Allowed, ...] | None = None
    entries: tuple[Allowed, ...] | None = None
    died: tuple[int, ...] | None = None
    undecided: tuple[int, ...] = ()
    why: str = ""
    completed: bool = False


class Lives(NamedTuple):
    """A fault shows in the outcome of a request under the versions of the line from ``first`` ("" = as soon as the
    version has what the scenario uses) to ``last``."""

    request: int
    first: str
    last: str


@dataclass(frozen=True, slots=True, repr=False)
class Scenario:
    """A whole scenario; ``repr()`` is its requests in the one-line notation."""

    id: str
    title: str
    source: tuple[str, ...]
    why: str
    engine: str
    model: str
    profiles: tuple[str, ...]
    server: Mapping[str, Option]
    words: Mapping[str, int]
    steps: tuple[Step, ...]
    expect: Mapping[str, Expect] = field(default_factory=dict)
    file: str = ""
    lives: tuple[Lives, ...] = ()
    old_names: Mapping[str, str] = field(default_factory=dict)       # of profiles, as the file has them -> present ones

    def __repr__(self) -> str:
        from cachesim.scenarios.notation import to_line  # schema is below notation

        return to_line(self)
