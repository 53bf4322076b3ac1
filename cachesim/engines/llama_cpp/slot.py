"""What the server believes about one conversation: the slot, its tokens, its checkpoints, its task.

Nothing keeps these beliefs equal to what the memory holds, except the rules.
Source: llama.cpp tools/server/server-context.cpp server_slot, server-task.h (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cachesim.engines.base import Answer, Immutable, Request
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt
from cachesim.engines.shared.slot_base import SlotBase


class State(Enum):
    """Where a slot is in its work."""

    IDLE = "idle"
    STARTED = "started"
    WAITING = "waiting for the parent"
    PROMPT = "processing prompt"
    DONE_PROMPT = "prompt done"
    GENERATING = "generating"


@dataclass(frozen=True, slots=True)
class Checkpoint(Immutable):
    """The facts of a checkpoint and the saved state behind it. Immutable, so a copy is a reference."""

    facts: Ckpt
    blob: Blob
    draft: Blob | None = None


@dataclass(slots=True)
class SpecCkpt:
    """The state before a draft. ``tgt`` and ``dft`` are None where the memory can be cut instead."""

    n_tokens: int
    pos_min: int
    pos_max: int
    tgt: Blob | None = None
    dft: Blob | None = None


@dataclass(slots=True)
class Task:
    """A request on its way through the server. Ids count requests and update iterations alike; ``parent`` is the id of
    the task that this one is a further completion of, -1 = of none."""

    id: int
    request: Request
    answer: Answer
    parent: int = -1


@dataclass(slots=True)
class Slot(SlotBase):
    """One slot; its id is also its sequence in the memory. ``t_last`` is the tick of its last release, -1 = never.

    ``reused`` is the common prefix that the present prompt began with, ``at`` the place in the batch of the token
    after which the model shall speak (-1 = none), ``fed`` the places of its prompt tokens in the present batch.
    """

    id: int
    state: State = State.IDLE
    tokens: list[int] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    task: Task | None = None
    t_last: int = -1
    last_task: int | None = None     # id of the present task or the one before it
    reused: int = 0
    sampled: int = -1
    n_gen: int = 0
    at: int = -1
    fed: tuple[int, int] = (0, 0)
    truncated: bool = False
    source: str = "slot"          # of the tokens that the present task reuses: slot, checkpoint or entry
    draft: list[int] = field(default_factory=list)
    replay: bool = False         # the draft holds tokens already found right, to be evaluated again
    spec_ckpt: SpecCkpt | None = None
    child: bool = False          # the task is a further completion of another slot's prompt
    children: list[int] = field(default_factory=list)

    def begin(self, task: Task, state: State) -> None:
        """A task comes to the slot."""
        self.task, self.state, self.last_task = task, state, task.id
        self.n_gen, self.truncated, self.at = 0, False, -1
        self.draft, self.replay, self.spec_ckpt = [], False, None

    @property
    def busy(self) -> bool:
        """Is a task at work here?"""
        return self.state is not State.IDLE
