"""What is an engine, for everyone above? The one contract: start a server, submit, step, look inside, describe itself.

An ``Engine`` brings rule sets, what can be asked of its server, and sentences for its decisions; ``start`` gives a
``Server``. Runner, judge, search, replay and reports use nothing else, so that an engine which fulfils this contract
has every command. Rule sets are ``shared.tables.RuleSet``.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.errors import BadInput, nearest, quoted
from cachesim.base.tokens import Tokens
from cachesim.engines.base import Answer, Request
from cachesim.engines.capabilities import Manual, Option, scenario_names
from cachesim.engines.inspection import Excess, Key, Stored
from cachesim.engines.shared.command_line import CommandLine
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.engines.shared.timeline import Timeline
from cachesim.events import Event, Log
from cachesim.model import Model


class Removal(NamedTuple):
    """Positions p0 .. p1-1 of a sequence were asked to go; ``ok`` False = refused. ``before`` and ``after`` are the
    positions of its rows."""

    seq: int
    p0: int
    p1: int
    ok: bool
    before: np.ndarray
    after: np.ndarray


class StoredBytes(NamedTuple):
    """Declared bytes of what is kept besides the live memory: checkpoints of slots, and stored conversations with
    theirs."""

    checkpoints: int
    cache: int


class Server(ABC):
    """A simulated server. A *slot* is a place in which one request is worked on, numbered from 0; an engine without
    slots numbers its requests. Looking inside changes nothing.

    ``log`` is where everything is told; ``dead``: its process has ended; ``model`` does the arithmetic, None where
    nothing is computed.
    """

    log: Log
    dead: bool
    model: Model | None

    # What clients do.

    @abstractmethod
    def submit(self, request: Request) -> Answer:
        """Queue a request; the answer fills as the server works. Raises BadInput for what this engine does not know."""

    @abstractmethod
    def slot(self, action: str, id_slot: int, file: Path | None = None) -> dict[str, Any]:
        """Save, restore or erase a slot; returns the reply's fields, ``status`` among them. Raises BadInput for what
        this engine does not know; nothing is changed then."""

    def replays(self, wrong: int) -> bool:
        """Are the tokens before so many rejected drafted ones evaluated again, because the memory cannot take the
        rejected ones back?"""
        return False

    # Work, in rounds.

    @abstractmethod
    def take_tasks(self) -> None:
        """First half of a round: what clients want."""

    def take_queue(self) -> None:
        """The same, before any hang-up of this round."""
        self.take_tasks()

    @abstractmethod
    def update(self) -> None:
        """Second half of a round: one batch for all busy slots."""

    @property
    @abstractmethod
    def working(self) -> bool:
        """Is there anything left to do, that can be done?"""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Would a round change nothing, and all that follow it?"""

    @property
    def stuck(self) -> bool:
        """Will nothing happen any more until somebody sends something?"""
        return False

    def iterate(self) -> None:
        """One round of the main loop."""
        self.take_tasks()
        self.update()

    def complete(self, request: Request) -> Answer:
        """Work on one request until nothing is left to do."""
        answer = self.submit(request)
        while self.working:
            self.iterate()
        return answer

    # Where its tasks are: what a replay of requests sent at the same time asks.

    @property
    def queued(self) -> int:
        """Tasks that have come and that no round has looked at yet."""
        return 0

    @property
    def leaving(self) -> bool:
        """Will the next ``take_tasks`` begin with a hang-up?"""
        return False

    @property
    def arrival_is_unlogged(self) -> bool:
        """Is nothing written of a request that comes while all slots are busy?"""
        return False

    def busy(self) -> Sequence[int]:
        """The slots in which a request is being worked on; of an engine without slots the requests in progress."""
        return [number for number in range(self.n_slots) if self.answer_at(number) is not None]

    def tasks(self) -> tuple[Sequence[int], Sequence[int]]:
        """Ids of the tasks in slots, one for each busy slot, and of those that wait for one."""
        return self.busy(), []

    @abstractmethod
    def fork(self) -> Server:
        """A copy that can go its own way; what never changes is shared."""

    # What it holds.

    @property
    @abstractmethod
    def n_slots(self) -> int:
        """Slots, or requests that there ever were in an engine without slots."""

    def occupied_slots(self) -> Sequence[int]:
        """The slots that may hold something: all slots; of an engine without slots the requests in progress."""
        return range(self.n_slots)

    @abstractmethod
    def tokens_of(self, slot: int) -> Tokens:
        """The tokens that the engine believes to be in a slot."""

    @abstractmethod
    def answer_at(self, slot: int) -> Answer | None:
        """The answer that is being worked on in a slot, None = no task is there."""

    def is_further(self, slot: int) -> bool:
        """Is the task of a slot a further completion of another slot's prompt?"""
        return False

    @abstractmethod
    def stored(self, key: Key, start: int = 0) -> Stored:
        """What the restore point with this key consists of. Of a slot: rows of full attention from position ``start``
        on, which are to be looked at before the server goes on."""

    @abstractmethod
    def kept(self) -> list[Key]:
        """The keys of all checkpoints, stored conversations, blocks: of everything but live slots. What belongs to one
        slot, or to one conversation, comes together."""

    def live(self, slot: int) -> Stored:
        """A copy of a slot as it stands: its tokens, and what the memory holds for it."""
        return self.stored(("slot", slot, 0))._replace(tokens=self.tokens_of(slot)).copy()

    def checkpoints(self, slot: int) -> list[int]:
        """Lengths in tokens of the checkpoints from which a slot could go on."""
        return []

    def checkpoint_spans(self, slot: int) -> list[tuple[int, int]]:
        """pos_min and pos_max of these checkpoints, in the same order; [] = the engine keeps no such numbers."""
        return []

    def stored_bytes(self) -> StoredBytes:
        """What checkpoints and stored conversations weigh right now, in the sizes that the model declares."""
        return StoredBytes(0, 0)

    def agrees(self, slot: int) -> bool:
        """Does the memory end where the tokens of a slot end?"""
        return True

    # What must hold at any time.

    def held(self, seq: int) -> np.ndarray:
        """(n,) positions of a sequence's rows in every attention cache, ascending in each; empty where there is no
        memory of several sequences."""
        return np.zeros(0, np.int64)

    def exceeded(self) -> list[Excess]:
        """Limits that are exceeded."""
        return []

    def check(self) -> None:
        """Raise Crash unless the memory is consistent."""
        return None

    def observe_removals(self, hear: Callable[[Removal], None]) -> None:
        """From now on tell of every removal of rows, where the memory has several sequences."""
        return None


def copy_server(server: Server, *shared: object) -> Any:
    """A deep copy of a server, which shares its model, its past events and these."""
    return copy.deepcopy(server, {id(x): x for x in (server.model, *shared, *server.log.events)})


@dataclass(frozen=True)
class RecordingFormat:
    """How real servers of an engine are recorded. ``name`` stands in the recordings, ``commits`` are the commits (or
    builds) of recordings that name no rule set; ``events`` are those that only this engine logs; ``read`` gives the
    options of a command line, None = its recordings are not replayed; ``write`` the command line that sets them;
    ``base``: the constant flags of the recordings set options, too. ``constant`` are the flags with which scripts start
    a real server, ``uncached`` those of its cold twin; () = those of llama-server."""

    name: str
    commits: Mapping[str, str] = field(default_factory=dict)
    events: Sequence[type[Event]] = ()
    read: Callable[[list[str]], CommandLine] | None = None
    write: Callable[[Mapping[str, Option]], list[str]] | None = None
    base: bool = False
    constant: Sequence[str] = ()
    uncached: Sequence[str] = ()


@dataclass(frozen=True)
class Engine:
    """An engine: its rule sets (profiles), what can be asked of its server, and the server itself."""

    name: str                                                    # in front of the names of its rule sets: `llama_cpp`
    profiles: Mapping[str, RuleSet]                              # its rule sets by name
    manual: Manual                                               # options, models, fields of requests
    serve: Callable[[RuleSet, str, Mapping[str, Option], str, Log], Server]  # starts a server of a rule set
    # a decision (rule, value, numbers) in words, None = it has none
    say: Callable[[str, object, Mapping[str, Any]], str | None]
    recorded: RecordingFormat                                           # how its real servers are recorded
    line: Sequence[str] = ()                                     # rule sets of the main branch, oldest first
    beside: Mapping[str, str] = field(default_factory=dict)      # proposals -> the rule set that they change
    newest: str = ""                                             # the newest rule set of a recorded build
    renamed: Mapping[str, str] = field(default_factory=dict)     # former names of rule sets -> the present ones
    notes: Mapping[str, str] = field(default_factory=dict)       # rule set -> what a reader of its name should know
    when: Timeline = field(default_factory=Timeline)  # at which builds and dates the rule sets of `line` were in force
    keeps: str = "checkpoint"                                    # noun for what its rules of role CREATE make
    log: Callable[[], LogGrammar] = LogGrammar  # the lines of the real server's log; imported when a log is read

    @cached_property
    def rule_flags(self) -> Mapping[str, Sequence[str]]:
        """Families of rules, with the names of the options that govern them and then of those that affect them."""
        found: dict[str, list[str]] = {}
        pairs = [(flag.governs, flag.name) for flag in self.manual.flags]
        for families, name in pairs + [(flag.affects, flag.name) for flag in self.manual.flags]:
            for family in families.split():
                found.setdefault(family, []).append(name)
        return found

    def rules(self, profile: str) -> RuleSet:
        """The rule set of this name. Raises BadInput for an unknown one."""
        if profile not in self.profiles:
            raise BadInput(f"unknown profile {quoted(profile)}", hint=nearest(profile, self.profiles))
        return self.profiles[profile]

    def check_request(self, request: Request) -> None:
        """Raise BadInput for a request with a field that this engine's server does not know, rather than drop it."""
        if ignored := self.manual.ignored(request):
            known = ", ".join(sorted(scenario_names(self.manual.takes))) or "a prompt and an answer"
            raise BadInput(f"a request to this engine has no {', '.join(ignored)}", hint=f"it has {known}")

    def start(self, rules: RuleSet | str, model: str, flags: Mapping[str, Option], mode: str,
              log: Log | None = None) -> Server:
        """A server of a rule set (or the name of one) with this model and these options. ``mode``: "none" (positions
        only), "provenance" (which token went where) or "exact" (the numbers too). Raises BadInput."""
        table = self.rules(rules) if isinstance(rules, str) else rules
        return self.serve(table, model, flags, mode, Log() if log is None else log)


__all__ = ["CommandLine", "Engine", "Event", "RecordingFormat", "Removal", "RuleSet", "Server", "StoredBytes",
           "copy_server"]  # fmt: skip
