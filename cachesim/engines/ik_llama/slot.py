"""What the server believes about one conversation: the slot, its tokens, its checkpoints, its task.

Source: ik_llama.cpp examples/server/server-context.h server_slot (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cachesim.engines.base import Answer, Immutable, Request
from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.kv_cache import Blob, States
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.shared.slot_base import SlotBase


class State(Enum):
    """Where a slot is in its work. LEAVING is released in the next iteration."""

    IDLE = "idle"
    LOADING = "loading the prompt"
    GENERATING = "generating"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class Checkpoint(Immutable):
    """The facts of a checkpoint and the saved state behind it. Immutable, so a copy is a reference."""

    facts: Ckpt
    blob: Blob


@dataclass(slots=True)
class SpecCkpt:
    """What a rejection would need: ``n_past`` tokens before the round; the state of the recurrent rows, and of the
    cells or of the whole partial state, where they are not kept step by step."""

    n_past: int
    states: list[States] | None = None
    cells: Cells | None = None
    blob: Blob | None = None


@dataclass(slots=True)
class Task:
    """A request on its way through the server. Ids count requests and iterations alike."""

    id: int
    request: Request
    answer: Answer
    prompt: list[int]            # what is left of the request's prompt once it was made to fit
    begun: bool = False


@dataclass(slots=True)
class Slot(SlotBase):
    """One slot; its id is also its sequence. ``tokens`` are those believed to be in the memory: they join it before
    they are evaluated. ``n_prompt`` prompt tokens are consumed, ``offset`` more than tokens held; ``n_keep`` is as the
    client asked, and stays until a request brings another; ``kept`` and ``discarded`` remember a shift; ``unheard``
    tokens were not taken out by a shift, though the count of past tokens no longer has them, until the next token is
    sampled; ``last_checkpoint`` is a position; ``draft`` follows the sampled token at place ``at`` of the batch (-1 =
    nothing to say); ``fed`` are the places of its prompt tokens there."""

    id: int
    state: State = State.IDLE
    tokens: list[int] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    task: Task | None = None
    last_task: int = -1          # id of the present task, or of the one before
    t_last: int = -1
    n_prompt: int = 0
    offset: int = 0
    n_keep: int = 0
    kept: int = 0
    discarded: int = 0
    unheard: int = 0
    last_checkpoint: int = -1
    due: bool = False            # the present batch ends where a checkpoint is to be taken
    marks: bool = False          # checkpoints are made for this task
    sampled: int = -1
    n_decoded: int = 0
    at: int = -1
    fed: tuple[int, int] = (0, 0)
    draft: list[int] = field(default_factory=list)
    drafting: bool = False       # the present round is a speculative one, perhaps with an empty draft
    spec: SpecCkpt | None = None
    truncated: bool = False
    source: str = "slot"          # of the tokens that the present task reuses: slot, checkpoint or entry
    child: bool = False          # never: this server has no further completions

    def begin(self, task: Task, last_checkpoint: int) -> None:
        """A task comes to the slot. What is not named here stays from the task before."""
        self.task, self.state, self.last_checkpoint = task, State.LOADING, last_checkpoint
        self.last_task = task.id
        self.n_prompt, self.kept, self.discarded, self.unheard, self.due = 0, 0, 0, 0, False
        self.draft, self.drafting, self.spec, self.at, self.truncated = [], False, None, -1, False

    @property
    def busy(self) -> bool:
        """Is a task at work here?"""
        return self.state is not State.IDLE
