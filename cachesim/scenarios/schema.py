"""What is a scenario? Its dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Iterable, Mapping, NamedTuple

from cachesim.engines.base import Request
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import DEFAULT
from cachesim.scenarios.notation.canonical_text import prompt_text, spell, step_text
from cachesim.scenarios.notation.tree import Action as Action
from cachesim.scenarios.notation.tree import Asked, ScenarioLine

Allowed = tuple[int, ...]
"""The values that an expectation accepts: one, or several where the engine leaves freedom (``either``)."""

SCHEMA = 2
"""The form of scenario files. An option that a file does not set is the server's own default."""

DEFAULT_PROFILE = DEFAULT.newest
"""The rule set of a command that names none: the newest recorded one of the first engine."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request, or the ``action`` in its place (the request is empty then). ``asked`` is the step in words,
    canonical."""

    request: Request
    asked: Asked | Action
    why: str = ""

    @property
    def action(self) -> Action | None:
        """The step, if it is no request."""
        return self.asked if isinstance(self.asked, Action) else None

    @property
    def drafts(self) -> tuple[tuple[int, int], ...]:
        """Pairs (drafted, accepted) in the order of the iterations."""
        return self.asked.drafts if isinstance(self.asked, Asked) else ()

    @property
    def together(self) -> bool:
        """Is it sent while the step before is at work, ``after`` iterations of the server's loop later?"""
        return isinstance(self.asked, Asked) and self.asked.together

    @property
    def after(self) -> int:
        """Iterations between the step before and this one, if they are sent together."""
        return self.asked.after if isinstance(self.asked, Asked) else 0

    def alone(self) -> Step:
        """The step, sent by itself."""
        if isinstance(self.asked, Action) or not self.together:
            return self
        return replace(self, asked=self.asked._replace(together=False, after=0))

    @property
    def text(self) -> str:
        """The step in the one-line notation, without the lengths of words; an action without its braces."""
        return step_text(self.asked)

    @property
    def prompt(self) -> str:
        """The words of the prompt alone, or the action, for a table."""
        return prompt_text(self.asked)


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


def at_once(together: Iterable[bool]) -> list[range]:
    """Numbers of the requests that are sent at once, group by group. ``together``: is each sent while the one before
    it is at work?"""
    joins = list(together)
    starts = [number for number, joined in enumerate(joins) if not joined or number == 0]
    return [range(start, stop) for start, stop in pairwise([*starts, len(joins)])]


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
    model_note: str = ""                                             # what the name of a real model stands for
    old_names: Mapping[str, str] = field(default_factory=dict)       # of profiles, as the file has them -> present ones
    rules: tuple[str, ...] = ()                                      # files of rules that its profiles may be of
    symptom: str = ""                                                # what a user sees (``symptoms``)

    @property
    def line(self) -> ScenarioLine:
        """The steps in words."""
        return ScenarioLine(self.words, tuple(step.asked for step in self.steps))

    def __repr__(self) -> str:
        return spell(self.line)
