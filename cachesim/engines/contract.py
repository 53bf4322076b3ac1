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
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput, first_of, nearest, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Manual, Option, scenario_names
from cachesim.engines.inspection import BlockCell, Excess, Key, MemorySizes, Stored, StoredBytes, TreeCell
from cachesim.engines.shared.class_recording import ClassRecording
from cachesim.engines.shared.command_line import CommandLine
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.memory_use import MemoryForms
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.timeline import Timeline
from cachesim.events import Event, Log
from cachesim.model import Model


class Removal(NamedTuple):
    """Requested removal of positions p0 .. p1-1 of a sequence; ``ok`` False = refused. ``before`` and ``after`` are the
    positions of the sequence's rows before and after the call."""

    seq: int
    p0: int
    p1: int
    ok: bool
    before: np.ndarray
    after: np.ndarray


class Server(MemorySizes, ABC):
    """A simulated server. A *slot* processes a single request at a time and is numbered from 0; an engine without slots
    numbers its requests instead. Inspection changes nothing.

    ``log`` receives all events; ``dead``: the process has ended; ``model`` does the arithmetic, None if nothing is
    computed.
    """

    log: Log
    dead: bool
    model: Model | None

    # Client requests.

    @abstractmethod
    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for fields or
        values that this engine does not support."""

    @abstractmethod
    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Save, restore or erase a slot; return the fields of the reply, ``status`` among them; 0 = the process ended.
        ``percent``: share of the file that is left to restore. Raises BadInput for an action that this engine does not
        support; nothing is changed then."""

    def set_adapters(self, scales: str) -> dict[str, Any]:
        """Change the scales of the server's adapters, as a request's field ``lora`` writes them; those not named are
        off. Raises BadInput for an engine without adapters."""
        raise BadInput("this engine has no adapters")

    def reevaluates_draft(self, wrong: int) -> bool:
        """True if rejecting ``wrong`` drafted tokens makes the server evaluate the tokens before them again, because
        the memory cannot remove the rejected tokens."""
        return False

    # Work in rounds (iterations of the main loop).

    @abstractmethod
    def take_tasks(self) -> None:
        """Run the first half of a round: process the client requests."""

    def take_queue(self) -> None:
        """Process the queued client requests up to the first disconnect of this round."""
        self.take_tasks()

    @abstractmethod
    def update(self) -> None:
        """Run the second half of a round: evaluate a batch for all busy slots."""

    @property
    @abstractmethod
    def working(self) -> bool:
        """True if the server has work that it can do now."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """True if no further round changes anything."""

    @property
    def stuck(self) -> bool:
        """True if nothing changes until a client sends something."""
        return False

    def iterate(self) -> None:
        """Run a round of the main loop."""
        self.take_tasks()
        self.update()

    def complete(self, request: Request) -> Answer:
        """Submit a request and run until no work is left; return its answer."""
        answer = self.submit(request)
        while self.working:
            self.iterate()
        return answer

    # State of the tasks, for the replay of concurrent requests.

    @property
    def queued(self) -> int:
        """Number of received tasks that no round has processed yet."""
        return 0

    @property
    def disconnect_is_next(self) -> bool:
        """True if the next ``take_tasks`` begins with a client disconnect."""
        return False

    @property
    def arrival_is_unlogged(self) -> bool:
        """True if the server logs nothing when a request arrives and every slot is busy."""
        return False

    def busy(self) -> Sequence[int]:
        """Return the slots that are processing a request; for an engine without slots the requests in progress."""
        return [number for number in range(self.n_slots) if self.answer_at(number) is not None]

    def tasks(self) -> tuple[Sequence[int], Sequence[int]]:
        """Return the ids of the tasks in busy slots, and the ids of the tasks that wait for a slot."""
        return self.busy(), []

    @abstractmethod
    def fork(self) -> Server:
        """Return a copy that runs independently. Immutable parts are shared."""

    # Contents.

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """Number of slots; for an engine without slots the number of requests received so far."""

    def occupied_slots(self) -> Sequence[int]:
        """Return the slots that may hold tokens: all slots; for an engine without slots the requests in progress."""
        return range(self.n_slots)

    @abstractmethod
    def tokens_of(self, slot: int) -> Tokens:
        """Return the tokens that the engine records for a slot."""

    @abstractmethod
    def answer_at(self, slot: int) -> Answer | None:
        """Return the answer in progress in a slot, None if the slot has no task."""

    def is_further(self, slot: int) -> bool:
        """True if the task of a slot is a second or later completion of another slot's prompt."""
        return False

    @abstractmethod
    def stored(self, key: Key, start: int = 0) -> Stored:
        """Return the content of the restore point with this key. For a slot, rows of full attention from position
        ``start`` on; read them before the server continues."""

    @abstractmethod
    def kept(self) -> list[Key]:
        """Return the keys of all checkpoints, stored conversations and blocks, that is of everything except live slots.
        Keys that belong to the same slot or conversation are adjacent."""

    def live(self, slot: int) -> Stored:
        """Return a copy of the current content of a slot: its tokens and its part of the memory."""
        return self.stored(("slot", slot, 0))._replace(tokens=self.tokens_of(slot)).copy()

    def checkpoints(self, slot: int) -> list[int]:
        """Return the lengths [tokens] of the checkpoints that a slot could restore."""
        return []

    def checkpoint_spans(self, slot: int) -> list[tuple[int, int]]:
        """Return pos_min and pos_max of the checkpoints of a slot, in the order of ``checkpoints``; [] if the engine
        does not keep them."""
        return []

    def blocks(self) -> Sequence[BlockCell]:
        """Return the blocks of the pool in the order of their numbers; () for an engine without a pool."""
        return ()

    def nodes(self) -> Sequence[TreeCell]:
        """Return the nodes of the radix tree, parents before their children; () for an engine without a tree."""
        return ()

    def memory_matches(self, slot: int) -> bool:
        """True if the memory ends where the tokens of a slot end."""
        return True

    # Invariants.

    def held(self, seq: int) -> np.ndarray:
        """Return the positions (n,) of a sequence's rows in all attention caches, ascending in each cache; empty if the
        memory does not have several sequences."""
        return np.zeros(0, np.int64)

    def exceeded_limits(self) -> list[Excess]:
        """Return the exceeded limits."""
        return []

    def check(self) -> None:
        """Raise Crash unless the memory is consistent."""

    def observe_removals(self, observer: Callable[[Removal], None]) -> None:
        """Call ``observer`` for every later removal of rows, if the memory has several sequences."""


def copy_server(server: Server, *shared: object) -> Any:
    """Return a deep copy of a server that shares its model, its past events and the ``shared`` objects."""
    return copy.deepcopy(server, {id(x): x for x in (server.model, *shared, *server.log.events)})


@dataclass(frozen=True)
class RecordingFormat:
    """Recordings of an engine's real servers."""

    name: str                                               # engine name in the recordings
    commits: Mapping[str, str] = field(default_factory=dict)  # commit or build of recordings without profile -> profile
    events: Sequence[type[Event]] = ()                      # events that only this engine logs
    read: Callable[[list[str]], CommandLine] | None = None  # command line -> options, None = recordings not replayed
    write: Callable[[Mapping[str, Option]], list[str]] | None = None  # options -> command line
    base: bool = False                                      # the constant flags of the recordings set options, too
    constant: Sequence[str] = ()                            # flags that start a real server, () = those of llama-server
    uncached: Sequence[str] = ()                            # flags of its cold twin, () = those of llama-server
    options: Callable[[Mapping[str, Any]], Mapping[str, Option]] = lambda header: {}  # that only the header names
    classes: ClassRecording | None = None                   # recordings of the server's classes, None = there are none


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
    log: Callable[[], LogGrammar] = LogGrammar  # log lines of the real server, imported on demand
    memory: Callable[[], MemoryForms | None] = lambda: None  # sizes of its caches, imported on demand; None = unknown
    words: str = ""                                  # pattern of words that only its users write, in lower case

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
        """Return the rule set of this name. Raises BadInput if the name is unknown."""
        if profile not in self.profiles:
            raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, self.profiles))
        return self.profiles[profile]

    def check_request(self, request: Request) -> None:
        """Raise BadInput for a request with a field that this engine's server does not support."""
        if ignored := self.manual.ignored(request):
            known = first_of(sorted(scenario_names(self.manual.takes)), 160) or "a prompt and an answer"
            text = f"request field not supported by this engine: {', '.join(ignored)}"
            raise BadInput(text, hint=f"supported: {known}")

    def start(self, rules: RuleSet | str, model: str, flags: Mapping[str, Option], mode: str,
              log: Log | None = None) -> Server:
        """Start a server of a rule set (or of its name) with this model and these options. ``mode``: "none" (positions
        only), "provenance" (provenance of each row and state) or "exact" (the numbers too). Raises BadInput."""
        table = self.rules(rules) if isinstance(rules, str) else rules
        return self.serve(table, model, flags, mode, Log() if log is None else log)


__all__ = ["CommandLine", "Engine", "Event", "RecordingFormat", "Removal", "RuleSet", "Server", "StoredBytes",
           "copy_server"]  # fmt: skip
