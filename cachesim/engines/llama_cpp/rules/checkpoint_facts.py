"""What the checkpoint rules look at: plain values, never the server.

pos_next   position of the first token that would be evaluated
thold      a stored state must begin before this position
exact      the memory cannot be cut at any position (recurrent, hybrid): the probe found FULL or RS
"""

from __future__ import annotations

from typing import Any, NamedTuple

FROM_FILE = -1
"""The ``id_task`` of a checkpoint that came back with a slot file."""


class Ckpt(NamedTuple):
    """A checkpoint: the state after ``n_tokens`` tokens, taken for task ``id_task``; the range that the memory
    reported then; bytes; and the ``note`` that the table's CKPT-NOTE left on it, for other rules of that table to read
    (None = none, as after it came back with a slot file). One that takes the place of another of its length begins with
    the note of that."""

    n_tokens: int
    pos_min: int
    pos_max: int
    id_task: int
    size: int
    note: Any = None


class Use(NamedTuple):
    """What became of a checkpoint for the task ``id_task`` (ids grow with time): it was MADE, or USED to go on from."""

    what: str
    id_task: int


MADE, USED = "made", "used"


class Ask(NamedTuple):
    """A new prompt against a slot: ``n_past`` reusable tokens of ``held``, ``n_tokens`` in the prompt; live
    ``pos_min`` of the memory; ``n_swa`` as the server counts it."""

    n_past: int
    pos_next: int
    held: int
    n_tokens: int
    pos_min: int
    n_swa: int
    exact: bool


class Resume(NamedTuple):
    """Where evaluation goes on, and whether all checkpoints are forgotten besides."""

    pos_next: int
    n_past: int
    forget: bool = False


class Chunk(NamedTuple):
    """A stretch of prompt about to be put into a batch: tokens start .. stop-1 of ``n_tokens``, in a batch of at
    most ``n_batch`` of which ``room`` are free. ``starts`` are the user messages' first tokens; ``reused`` is
    the common prefix that the prompt began with; ``do`` whether checkpoints are made at all; ``tail``: tokens before
    the prompt's end at which the last chunk begins."""

    start: int
    n_tokens: int
    room: int
    n_batch: int
    n_ubatch: int
    starts: tuple[int, ...]
    min_step: int
    do: bool
    reused: int
    tail: int = 4
