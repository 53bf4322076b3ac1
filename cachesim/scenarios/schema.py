"""Dataclasses of scenarios."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Iterable, Mapping, NamedTuple

from cachesim.engines.base import Request
from cachesim.engines.capabilities import Option
from cachesim.engines.registry import DEFAULT
from cachesim.scenarios.notation.canonical_text import prompt_text, spell, step_text
from cachesim.scenarios.notation.tree import Action as Action
from cachesim.scenarios.notation.tree import LineRequest, ScenarioLine

Allowed = tuple[int, ...]
"""Values that an expectation accepts; several if the engine's behaviour is not determined (``either``)."""

SCHEMA = 2
"""Version of the file format. Options that a file does not set have the server's own defaults."""

DEFAULT_PROFILE = DEFAULT.newest
"""Profile of commands without ``-p``: the newest recorded profile of the first engine."""


@dataclass(frozen=True, slots=True)
class Step:
    """A request, or an ``action`` with an empty request. ``asked``: the step in words, in canonical form; ``why``: its
    purpose."""

    request: Request
    asked: LineRequest | Action
    why: str = ""

    @property
    def action(self) -> Action | None:
        """The action of the step, None for a request."""
        return self.asked if isinstance(self.asked, Action) else None

    @property
    def drafts(self) -> tuple[tuple[int, int], ...]:
        """Pairs (drafted, accepted) in the order of the iterations."""
        return self.asked.drafts if isinstance(self.asked, LineRequest) else ()

    @property
    def together(self) -> bool:
        """True if the step is sent ``after`` server-loop iterations after the previous step, without waiting for it."""
        return isinstance(self.asked, LineRequest) and self.asked.together

    @property
    def after(self) -> int:
        """Server-loop iterations between the previous step and this step, if they are sent together."""
        return self.asked.after if isinstance(self.asked, LineRequest) else 0

    def alone(self) -> Step:
        """Return a copy of the step that is not sent together with the previous step."""
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
    """Expected results under a profile. Lists have an entry per step unless they list step numbers; None = no
    expectation. Step numbers count from 0."""

    cache_n: tuple[Allowed, ...] | None = None                  # reused prompt tokens
    prompt_n: tuple[Allowed, ...] | None = None                 # evaluated prompt tokens
    broken: tuple[int, ...] = ()                                # numbers of steps with a wrong answer
    checkpoints: tuple[tuple[int, ...], ...] | None = None      # n_tokens of the slot's checkpoints
    slots: tuple[Allowed, ...] | None = None                    # slot ids
    status: tuple[Allowed, ...] | None = None                   # HTTP status codes
    entries: tuple[Allowed, ...] | None = None                  # number of prompt-cache entries
    accepted: tuple[Allowed, ...] | None = None                 # drafted tokens counted as accepted
    evaluated: tuple[Allowed, ...] | None = None                # prompt tokens evaluated for all completions
    stored_bytes: tuple[Allowed, ...] | None = None             # bytes of checkpoints and stored conversations
    died: tuple[int, ...] | None = None                         # numbers of steps that crashed or found a dead server
    undecided: tuple[int, ...] = ()                             # numbers of steps that depend on uninitialised values
    why: str = ""                                               # reason for ``either``
    completed: bool = False                                     # numbers written by a run, not yet checked by a human


class Lives(NamedTuple):
    """Versions in which a request shows a fault: from ``first`` ("" = the first version that supports the scenario) to
    ``last`` ("" = the newest version still shows it)."""

    request: int
    first: str
    last: str


STRICT, PARTLY = "strict", "partly"
"""Claims of a report: the scenario shows the whole report, or a part of it."""


class BugReport(NamedTuple):
    """A reported bug that a scenario shows, and the rule that decides it."""

    entry: str               # id in the list of reported bugs, such as "LC-15"
    rule: str                # id of a rule or of its family
    fault: str               # profile that shows the fault
    fixed: str               # profile that does not
    request: int             # number of the request that shows it
    claim: str               # STRICT or PARTLY
    lacks: str               # missing part, "" = none


def at_once(together: Iterable[bool]) -> list[range]:
    """Return the groups of requests that are sent together, as ranges of numbers. ``together``: for each request, True
    if it is sent without waiting for the previous request."""
    joins = list(together)
    starts = [number for number, joined in enumerate(joins) if not joined or number == 0]
    return [range(start, stop) for start, stop in pairwise([*starts, len(joins)])]


@dataclass(frozen=True, slots=True, repr=False)
class Scenario:
    """A scenario. ``repr()`` is its requests in notation."""

    id: str                                                          # file name without .toml
    title: str
    source: tuple[str, ...]                                          # reports, pull requests, or "cachesim"
    why: str                                                         # explanation
    engine: str
    model: str                                                       # model name or layers
    profiles: tuple[str, ...]                                        # profiles to run under
    server: Mapping[str, Option]                                     # server options that are set
    words: Mapping[str, int]                                         # length of each word [tokens]
    steps: tuple[Step, ...]
    expect: Mapping[str, Expect] = field(default_factory=dict)       # expected results by profile
    file: str = ""                                                   # path, "" for a line in notation
    lives: tuple[Lives, ...] = ()                                    # versions that show a fault
    model_note: str = ""                                             # explanation of a real model's name
    rules: tuple[str, ...] = ()                                      # files of rules that may define its profiles
    symptom: str = ""                                                # a key of ``symptoms.SYMPTOMS``
    titles: Mapping[str, str] = field(default_factory=dict)          # of words, such as "system" for S
    reports: tuple[BugReport, ...] = ()                                 # reported bugs that it shows

    @property
    def name(self) -> str:
        """The id of a scenario file, or the whole line of a scenario in notation."""
        return self.id if self.file else repr(self)

    @property
    def line(self) -> ScenarioLine:
        """The steps in words."""
        return ScenarioLine(self.words, tuple(step.asked for step in self.steps))

    def __repr__(self) -> str:
        return spell(self.line)
