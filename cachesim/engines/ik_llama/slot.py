"""Slots: the server's record of a conversation, with its tokens, checkpoints and task.

Source: ik_llama.cpp examples/server/server-context.h server_slot (8337e4cd3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from cachesim.base.media_items import FIRST
from cachesim.base.tokens import TokenList
from cachesim.engines.base import Answer, FixedTokens, Immutable, Request
from cachesim.engines.ik_llama.memory.cells import Cells
from cachesim.engines.ik_llama.memory.kv_cache import Blob, States
from cachesim.engines.ik_llama.rules.checkpoint_restore import Ckpt
from cachesim.engines.shared.slot_base import SlotBase


class State(Enum):
    """Work state of a slot. A LEAVING slot is released in the next iteration."""

    IDLE = "idle"
    LOADING = "loading the prompt"
    GENERATING = "generating"
    LEAVING = "leaving"


@dataclass(frozen=True, slots=True)
class Checkpoint(Immutable):
    """Facts of a checkpoint and its saved state. Immutable, so copies share it."""

    facts: Ckpt
    blob: Blob


@dataclass(slots=True)
class SpecCkpt:
    """State saved for a rejection: ``n_past`` tokens before the round; unless the rows are kept per step, the recurrent
    rows with the cells, or the partial state as a blob."""

    n_past: int
    states: list[States] | None = None
    cells: Cells | None = None
    blob: Blob | None = None


@dataclass(slots=True)
class Task:
    """A request in progress. Requests and iterations share the sequence of ids."""

    id: int
    request: Request
    answer: Answer
    prompt: list[int]            # prompt, shortened if it did not fit
    has_begun: bool = False
    is_stopped: bool = False          # its client disconnected and stopped the evaluation of an image
    system: list[int] | None = None    # system prompt that the request sets, None = unchanged

    @property
    def has_images(self) -> bool:
        """True if the prompt has images."""
        return max(self.prompt, default=0) >= FIRST

    @property
    def parses(self) -> bool:
        """True if the request brings a parser for its answer, as chats do."""
        return bool(self.request.extra.get("parser", False))

    @property
    def streams(self) -> bool:
        """True if the client reads the answer as a stream, so that a disconnect does not stop an evaluation."""
        return bool(self.request.extra.get("stream", True))


@dataclass(slots=True)
class Slot(SlotBase):
    """A slot; its id is also its sequence id."""

    id: int
    state: State = State.IDLE
    tokens: list[int] = field(default_factory=TokenList)           # recorded tokens; they are added before evaluation
    checkpoints: list[Checkpoint] = field(default_factory=list)    # oldest first
    task: Task | None = None
    last_task: int = -1            # id of the current or previous task
    t_last: int = -1               # logical time of the last release
    n_prompt: int = 0              # prompt tokens processed
    offset: int = 0                # prompt tokens processed minus tokens held
    n_keep: int = 0                # n_keep of the last request that set it
    kept: int = 0                  # n_keep of an earlier shift
    discarded: int = 0             # tokens discarded by earlier shifts
    uncounted: int = 0             # tokens left by a shift, but not counted as past, until the next sample
    last_checkpoint: int = -1      # position of the last interval checkpoint
    due: bool = False              # the current batch ends where a checkpoint is created
    after_image: bool = False      # an image is the last thing evaluated for the prompt
    marks: bool = False            # checkpoints are created for this task
    sampled: int = -1              # last sampled token
    n_decoded: int = 0             # generated tokens
    at: int = -1                   # index of the sampled token in the batch, -1 = none; the draft follows it
    fed: tuple[int, int] = (0, 0)  # range of the prompt tokens in the batch
    draft: list[int] = field(default_factory=list)
    is_drafting: bool = False         # the current round is speculative, possibly with an empty draft
    spec: SpecCkpt | None = None   # state saved for a rejection
    truncated: bool = False        # a shift discarded tokens
    source: str = "slot"           # source of the reused tokens: slot, checkpoint or entry
    parser: bool = False           # answers are parsed with the parser of a chat
    last_prompt: FixedTokens = field(default_factory=FixedTokens)    # prompt of the current or previous task
    child: bool = False            # always False: this server does not support several completions

    def begin(self, task: Task, last_checkpoint: int) -> None:
        """Assign a task. Attributes that are not set here keep the values of the previous task."""
        self.task = task
        self.state = State.LOADING
        self.last_checkpoint = last_checkpoint
        self.last_task, self.last_prompt = task.id, FixedTokens(task.prompt)
        self.n_prompt = 0
        self.kept = 0
        self.discarded = 0
        self.uncounted = 0
        self.due = False
        self.after_image = False
        self.draft = []
        self.is_drafting = False
        self.spec = None
        self.at = -1
        self.truncated = False

    @property
    def busy(self) -> bool:
        """True if the slot processes a task."""
        return self.state is not State.IDLE
