"""The contract of an engine: start a server, submit requests, step, inspect, describe.

An ``Engine`` supplies rule sets, the description of its server's interface, and sentences for its decisions; ``start``
returns a ``Server``. The runner, judging, search, replay and reports use nothing else, so an engine that fulfils this
contract supports every command. Rule sets are instances of ``shared.rule_set.RuleSet``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Mapping, NamedTuple, Self, Sequence

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Manual, Option, scenario_names
from cachesim.engines.inspection import StoredBytes
from cachesim.engines.server_parts import (
    CacheCells,
    Inspection,
    MemorySizes,
    PublishedEvents,
    Removal,
    SequenceMemory,
    StepSchedule,
    Tasks,
)
from cachesim.engines.shared.command_line import CommandLine
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.timeline import Timeline
from cachesim.events import Event, Log
from cachesim.model import Model

if TYPE_CHECKING:                      # imported when they are asked for
    from cachesim.engines.chat_bodies import ChatBodies
    from cachesim.engines.shared.capacity import CapacityForms
    from cachesim.engines.shared.class_recording import ClassRecording
    from cachesim.engines.shared.command_table import CommandTable
    from cachesim.engines.shared.log_grammar import LogGrammar
    from cachesim.engines.shared.memory_use import MemoryForms


class Server(ABC):
    """A simulated server. Its methods drive it; callers ask its parts for everything else: ``inspection`` for the
    contents of slots and memory, ``tasks`` for what waits and works, ``sizes`` for bytes, ``sequences`` for positions,
    ``cache_cells`` for pictures, ``schedule`` for steps, ``published_events`` for KV events. An engine replaces the
    parts whose defaults do not fit.

    ``log`` receives all events; ``model`` does the arithmetic, None if nothing is computed. A fork shares the
    ``constants``.
    """

    log: Log
    model: Model | None
    constants: Sequence[object] = ()
    inspection: Inspection
    tasks: Tasks = Tasks()
    sizes: MemorySizes = MemorySizes()
    sequences: SequenceMemory = SequenceMemory()
    cache_cells: CacheCells = CacheCells()
    schedule: StepSchedule = StepSchedule()
    published_events: PublishedEvents = PublishedEvents()

    @property
    @abstractmethod
    def dead(self) -> bool:
        """True if the process has ended."""

    # Client requests.

    @abstractmethod
    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raise BadInput for fields or
        values that this engine does not support."""

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Save, restore or erase a slot; return the fields of the reply, ``status`` among them; 0 = the process ended.
        ``percent``: share of the file that is left to restore. Raise BadInput for an action that this engine does not
        support; nothing is changed then."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    def set_adapters(self, scales: str) -> dict[str, Any]:
        """Change the scales of the server's adapters, as a request's field ``lora`` writes them; those not named are
        off. Raise BadInput for an engine without adapters."""
        raise BadInput("this engine has no adapters")

    # Work in rounds (iterations of the main loop).

    @abstractmethod
    def take_tasks(self) -> None:
        """Run the first half of a round: process the client requests."""

    @abstractmethod
    def update(self) -> None:
        """Run the second half of a round: evaluate a batch for all busy slots."""

    def generate_given(self) -> int:
        """Do at once the next rounds that only generate tokens which a request states, with the events of these rounds
        and the state after them. Return the number of rounds; the default does none."""
        return 0

    @property
    @abstractmethod
    def idle(self) -> bool:
        """True if no further round changes anything."""

    @property
    def stuck(self) -> bool:
        """True if nothing changes until a client sends something."""
        return False

    @property
    def working(self) -> bool:
        """True if the server has work that it can do now."""
        return not self.idle and not self.stuck

    def iterate(self) -> None:
        """Run a round of the main loop."""
        self.take_tasks()
        self.update()

    def complete(self, request: Request) -> Answer:
        """Submit a request and run until no work is left; return its answer."""
        answer = self.submit(request)
        while self.working:
            self.generate_given()
            self.iterate()
        return answer

    def fork(self) -> Self:
        """Return a copy that runs independently. Immutable parts are shared."""
        shared = (self.model, *self.constants, *self.log.events)
        memo = {id(one): one for one in shared}
        memo |= self.own_copies(memo)
        return copy.deepcopy(self, memo)

    def own_copies(self, memo: dict[int, Any]) -> Mapping[int, Any]:
        """Return the objects of a fork that an engine copies in its own way, by the id of their originals."""
        return {}


@dataclass(frozen=True)
class RecordingFormat:
    """Recordings of an engine's real servers."""

    name: str                                               # engine name in the recordings
    commits: Mapping[str, str] = field(default_factory=dict)  # commit or build of recordings without profile -> profile
    # events that it logs, besides those of ``cachesim.events``, imported on demand
    events: Callable[[], Sequence[type[Event]]] = tuple
    read: Callable[[list[str]], CommandLine] | None = None  # command line -> options, None = recordings not replayed
    write: Callable[[Mapping[str, Option]], list[str]] | None = None  # options -> command line
    base: bool = False                                      # the constant flags of the recordings set options, too
    constant: Sequence[str] = ()                            # flags that start a real server, () = those of llama-server
    uncached: Sequence[str] = ()                            # flags of its cold twin, () = those of llama-server
    options: Callable[[Mapping[str, Any]], Mapping[str, Option]] = lambda header: {}  # that only the header names
    # recordings of the server's classes, imported on demand; None = there are none
    classes: Callable[[], ClassRecording | None] = lambda: None


def no_log_lines() -> LogGrammar:
    """Return the grammar of a server whose log is not read."""
    from cachesim.engines.shared.log_grammar import LogGrammar

    return LogGrammar()


def bodies_as_sent(profile: str) -> ChatBodies:
    """Return the reading of a server that hands request bodies to its template as clients send them."""
    from cachesim.engines.chat_bodies import ChatBodies

    return ChatBodies()


class ClassRequest(NamedTuple):
    """A request to the classes of a released package."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    reused: int             # prompt tokens that it must reuse
    is_together: bool       # sent without waiting for the request before
    after: int = 0          # server-loop iterations between the request before and this one, if they are sent together
    cache_salt: str = ""    # prefixes are shared only with requests of the same salt
    cancel_after: int = 0   # generated tokens after which the client disconnects, 0 = it stays


class ClassCase(NamedTuple):
    """Requests to the classes of a released package, with the numbers of a rule set. ``options``: those that differ
    from the defaults, and assumed sizes."""

    name: str
    title: str
    profile: str
    model: str
    options: Mapping[str, Option]
    requests: Sequence[ClassRequest]


class ClassTest(NamedTuple):
    """Tests on the classes of a released package, which run on a CPU without a model. ``options``: those under which
    they drive the classes, whatever the case; ``write``: returns the program of a case for pytest, or raises
    BadInput; ``takes``: fields of ``ClassRequest`` that a program can send besides prompt and answer;
    ``follows_contents``: a program fails if a request reads what another text left, or if the server ends."""

    options: Mapping[str, Option]
    write: Callable[[ClassCase], str]
    takes: AbstractSet[str] = frozenset()
    follows_contents: bool = False


@dataclass(frozen=True)
class Engine:
    """An engine: its rule sets (profiles), the interface of its server, and the server itself."""

    name: str                                                    # prefix of its rule set names: `llama_cpp`
    profiles: Mapping[str, RuleSet]                              # rule sets by name
    manual: Manual                                               # options, models, request fields
    serve: Callable[[RuleSet, str, Mapping[str, Option], str, Log], Server]  # start a server
    say: Callable[[str, object, Mapping[str, Any]], str | None]  # sentence of a decision (rule, value, numbers)
    recorded: RecordingFormat                                           # recordings of its real servers
    line: Sequence[str] = ()                                     # main-branch rule sets, oldest first
    beside: Mapping[str, str] = field(default_factory=dict)      # proposed rule set -> its base
    newest: str = ""                                             # newest rule set of a recorded build
    notes: Mapping[str, str] = field(default_factory=dict)       # rule set -> remark for readers
    when: Timeline = field(default_factory=Timeline)  # builds and dates of the rule sets of `line`
    keeps: str = "checkpoint"                                    # noun for the objects of Role.CREATE
    log: Callable[[], LogGrammar] = no_log_lines  # log lines of the real server, imported on demand
    memory: Callable[[], MemoryForms | None] = lambda: None  # sizes of its caches, imported on demand; None = unknown
    # options that set how much its caches hold, imported on demand; None = it has none
    capacity: Callable[[], CapacityForms | None] = lambda: None
    # arguments of its real server, imported on demand; None = those of the manual
    command: Callable[[], CommandTable | None] = lambda: None
    # lines on what the server derives from its options and model when it starts
    derived: Callable[[RuleSet, Mapping[str, Option]], Sequence[str]] = lambda rules, given: ()
    # names of options whose defaults the server replaces by what it derives from the others
    replaced: Callable[[RuleSet, Mapping[str, Option]], AbstractSet[str]] = lambda rules, given: frozenset()
    # raise BadInput for options with which the real server does not start, although its classes take them
    check_start: Callable[[RuleSet, str, Mapping[str, Option]], None] = lambda rules, model, given: None
    # sentences about flags that change answers or end the process with a model
    cautions: Callable[[RuleSet, str, Mapping[str, Option]], Sequence[str]] = lambda rules, model, given: ()
    chat_bodies: Callable[[str], ChatBodies] = bodies_as_sent      # how the server of a rule set reads bodies, by name
    # tests on the released classes, imported on demand; None = none are written
    class_test: Callable[[], ClassTest | None] = lambda: None
    words: str = ""                                  # pattern of words that only its users write, in lower case

    @cached_property
    def command_table(self) -> CommandTable:
        """Arguments of the real server, as people type them."""
        from cachesim.engines.shared.command_table import default_table

        return self.command() or default_table(self.name, self.manual.flags, self.manual.silent)

    @cached_property
    def rule_flags(self) -> Mapping[str, Sequence[str]]:
        """Rule family -> names of the options that govern it, followed by the options that affect it."""
        found: dict[str, list[str]] = {}
        for which in ("governs", "affects"):
            for flag in self.manual.flags:
                for family in getattr(flag, which).split():
                    found.setdefault(family, []).append(flag.name)
        return found

    def rules(self, profile: str) -> RuleSet:
        """Return the rule set of this name. Raise BadInput if the name is unknown."""
        if profile not in self.profiles:
            raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, self.profiles))
        return self.profiles[profile]

    def load_rules(self) -> None:
        """Import the rules of this engine. ``rule.RULES`` has them from then on; ``profiles`` may import them with the
        first rule set."""
        next(iter(self.profiles.values()), None)

    def check_request(self, request: Request) -> None:
        """Raise BadInput for a request with a field that this engine's server does not support."""
        if ignored := self.manual.ignored(request):
            known = first_of(sorted(scenario_names(self.manual.takes)), 160) or "a prompt and an answer"
            text = f"request field not supported by this engine: {', '.join(ignored)}"
            raise BadInput(text, hint=f"supported: {known}")

    def start(self, rules: RuleSet | str, model: str, flags: Mapping[str, Option], mode: str,
              log: Log | None = None) -> Server:
        """Start a server of a rule set (or of its name) with this model and these options. ``mode``: "none" (positions
        only), "provenance" (provenance of each row and state) or "exact" (the numbers too). Raise BadInput."""
        table = self.rules(rules) if isinstance(rules, str) else rules
        return self.serve(table, model, flags, mode, Log() if log is None else log)


__all__ = ["CommandLine", "Engine", "Event", "Inspection", "RecordingFormat", "Removal", "RuleSet", "Server",
           "StoredBytes"]  # fmt: skip
