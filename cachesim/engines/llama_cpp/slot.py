"""The server's own record of a conversation: a slot with its tokens, checkpoints and task.

Only the rules keep this record consistent with the contents of the memory.
Source: llama.cpp tools/server/server-context.cpp server_slot, server-task.h (3f545be).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer, Immutable, Request
from cachesim.engines.llama_cpp.memory.saved_state import Blob
from cachesim.engines.llama_cpp.rules.adapters import SavedAdapters
from cachesim.engines.llama_cpp.rules.checkpoint_facts import Ckpt
from cachesim.engines.llama_cpp.rules.slot_selection import COPIED
from cachesim.engines.shared.slot_base import SlotBase


class State(Enum):
    """State of a slot in the server's state machine."""

    IDLE = "idle"
    STARTED = "started"
    WAITING = "waiting for the parent"
    PROMPT = "processing prompt"
    DONE_PROMPT = "prompt done"
    GENERATING = "generating"


@dataclass(frozen=True, slots=True)
class Checkpoint(Immutable):
    """Facts and saved state of a checkpoint; ``draft``: draft context's state. Immutable: copies are references."""

    facts: Ckpt
    blob: Blob
    draft: Blob | None = None


@dataclass(slots=True)
class SpecCkpt:
    """State before a draft. ``tgt`` and ``dft`` are None if the memory can remove rejected tokens itself."""

    n_tokens: int
    pos_min: int
    pos_max: int
    tgt: Blob | None = None
    dft: Blob | None = None


@dataclass(slots=True)
class Task:
    """Request in the server. Requests and update iterations draw ids from a common counter. ``parent``: id of the task
    whose prompt this task completes once more, -1 = none. ``how``: the way to its further completions, see
    ``slot_selection.COPIED``."""

    id: int
    request: Request
    answer: Answer
    parent: int = -1
    how: str = COPIED


@dataclass(slots=True)
class Slot(SlotBase):
    """Slot of the server."""

    id: int                          # also the sequence id in the memory
    state: State = State.IDLE
    tokens: list[int] = field(default_factory=TokenList)
    checkpoints: list[Checkpoint] = field(default_factory=list)      # oldest first
    task: Task | None = None
    t_last: int = -1                 # tick of the last release, -1 = never used
    last_task: int | None = None     # id of the current or the previous task
    reused: int = 0                  # length of the common prefix with which the current prompt started [tokens]
    sampled: int = -1                # last sampled token, not yet in ``tokens``
    n_gen: int = 0                   # tokens generated for the current task
    i_batch: int = -1                     # index in the batch of the token whose output is sampled, -1 = none
    has_begun: bool = False              # the first chunk of the current prompt is in a batch
    before: int = 0                  # tokens of the slot before the last chunk of the current prompt
    prompt_span: tuple[int, int] = (0, 0)    # start and stop of the slot's prompt tokens in the current batch
    truncated: bool = False
    source: str = "slot"             # origin of the tokens that the task reuses: slot, checkpoint or entry
    draft: list[int] = field(default_factory=list)
    replay: bool = False             # the draft consists of accepted tokens that must be evaluated again
    spec_ckpt: SpecCkpt | None = None
    adapters: tuple[float, ...] = ()    # scales of the last request, () = never used
    alora_start: int = -1            # index of the invocation sequence in the prompt, -1 = none
    alora: int = 0                   # number of the aLoRA that the sequence invokes
    active: int = -1                 # index of the first row that an aLoRA computed, -1 = none, or not known
    child: bool = False              # the task is a further completion of another slot's prompt
    children: list[int] = field(default_factory=list)    # slots that wait for this slot's prompt

    def begin(self, task: Task, state: State) -> None:
        """Start a task in this slot."""
        self.task = task
        self.state = state
        self.last_task = task.id
        self.n_gen = 0
        self.truncated = False
        self.i_batch = -1
        self.has_begun = False
        self.draft = []
        self.replay = False
        self.spec_ckpt = None

    @property
    def noted(self) -> SavedAdapters:
        """What the slot's rows were computed under."""
        return SavedAdapters(self.adapters, self.active)

    @noted.setter
    def noted(self, noted: SavedAdapters) -> None:
        self.adapters = noted.scales
        self.active = self.active if noted.active is None else noted.active

    @property
    def busy(self) -> bool:
        """True if the slot has a task."""
        return self.state is not State.IDLE
