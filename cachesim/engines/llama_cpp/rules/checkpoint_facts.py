"""Inputs of the checkpoint rules: plain values, independent of the server.

pos_next   position of the first token that would be evaluated
thold      a stored state must begin before this position
exact      the memory cannot be cut at any position (recurrent, hybrid): the probe found FULL or RS
"""

from __future__ import annotations

from typing import Any, NamedTuple

FROM_FILE = -1
"""``id_task`` of a checkpoint that was restored with a slot file."""


class Ckpt(NamedTuple):
    """Facts of a checkpoint."""

    n_tokens: int        # the state is that after this many tokens
    pos_min: int         # range of positions in the memory at creation
    pos_max: int
    id_task: int         # task that created it, FROM_FILE = restored with a slot file
    size: int            # bytes
    note: Any = None     # result of the table's CKPT-NOTE, None = none; a replaced checkpoint passes its note on


class CheckpointUse(NamedTuple):
    """Use of a checkpoint by task ``id_task`` (ids increase with time): MADE (created) or USED (restored)."""

    what: str
    id_task: int


MADE, USED = "made", "used"


class PromptInputs(NamedTuple):
    """Inputs for a new prompt in a slot."""

    n_past: int          # reusable tokens
    pos_next: int
    held: int            # tokens in the slot
    n_tokens: int        # tokens of the prompt
    pos_min: int         # of the slot's sequence in the memory
    n_swa: int           # window used by the thresholds
    exact: bool


class ResumePlace(NamedTuple):
    """Position and number of tokens from which evaluation continues, and whether all checkpoints are erased."""

    pos_next: int
    n_past: int
    forget: bool = False


class Chunk(NamedTuple):
    """Part of a prompt that is added to a batch."""

    start: int
    n_tokens: int              # tokens of the whole prompt
    room: int                  # free tokens of the batch
    n_batch: int
    n_ubatch: int
    starts: tuple[int, ...]    # positions of the first tokens of user messages
    min_step: int
    do: bool                   # checkpoints are created
    reused: int                # common prefix with which the prompt started [tokens]
    tail: int = 4              # tokens before the prompt's end at which its last chunk begins
