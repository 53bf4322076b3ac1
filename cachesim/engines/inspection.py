"""Restore points of an engine, and the stored objects behind them, in the form that judging inspects.

A ``RestorePoint`` states from which lengths evaluation can resume. The engine reports when a point is gained and lost.
A ``StoredObject`` is the content of the object: the tokens that the engine records for it, the length at which
evaluation would resume, K/V rows and recurrent states. An object that several conversations share (a block, a tree
node) is a single ``StoredObject``, which holds only the part of its tokens from ``start`` on.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

import numpy as np

from cachesim.base.tokens import Tokens
from cachesim.engines.shared.kv_rows import copy_rows
from cachesim.model import KVRows, LayerState


class RowsPart(NamedTuple):
    """K/V rows of some layers: positions (n,) in any order, and rows by layer. ``window`` 0 = full attention;
    ``every``: tokens for which a row stands, whose positions are then the numbers of the rows."""

    window: int
    pos: np.ndarray
    rows: Mapping[int, KVRows]
    every: int = 1

    @property
    def is_index(self) -> bool:
        """True for index rows, by which later tokens choose the rows that they read."""
        return self.every == 1 and any(layer < 0 for layer in self.rows)

    @property
    def is_compressed(self) -> bool:
        """True for compressed rows, each of which stands for several tokens."""
        return self.every > 1


class StatePart(NamedTuple):
    """Recurrent states by layer after the token at position ``pos``; -1 = no token was absorbed."""

    pos: int
    rows: Mapping[int, LayerState | None]


class ResumeUnit(NamedTuple):
    """Unit that a server shares between requests: evaluation resumes only after a multiple of ``tokens``. ``noun``: the
    engine's word for it."""

    tokens: int
    noun: str


class StoredContent(NamedTuple):
    """Rows and recurrent states of a stored object, without its tokens."""

    rows: tuple[RowsPart, ...]
    state: StatePart | None


class StoredObject(NamedTuple):
    """Content of a stored object. ``owner``: its slot, or the number of a stored conversation (-1: the caller assigns
    the number). ``resume``: tokens that would not be evaluated again. ``start``: rows before this position belong to
    other objects and are not inspected; ``tokens`` are then those of any conversation that contains the object, so that
    all objects of a conversation can be compared with a single cold run."""

    kind: str
    owner: int
    tokens: tuple[int, ...]
    resume: int
    rows: tuple[RowsPart, ...]
    state: StatePart | None
    start: int = 0

    @property
    def length(self) -> int:
        """Tokens that the engine records for the object: those of its key, of a part those up to its end."""
        return self.resume if self.start else len(self.tokens)

    def copy(self) -> StoredObject:
        """Return a copy that does not change when the memory does."""
        rows = tuple(part._replace(pos=part.pos.copy(), rows={k: copy_rows(x) for k, x in part.rows.items()})
                     for part in self.rows)  # fmt: skip
        state = None if self.state is None else self.state._replace(rows=dict(self.state.rows))
        return self._replace(rows=rows, state=state)


class StoredBytes(NamedTuple):
    """Declared bytes stored besides the live memory: ``checkpoints`` of slots, and stored conversations with their
    checkpoints (``cache``)."""

    checkpoints: int
    cache: int


class StoredSize(NamedTuple):
    """Declared size of a stored object. ``kind``: "checkpoint" or "entry"; ``owner``: its slot, -1 = no slot."""

    kind: str
    owner: int
    tokens: int                  # tokens that the object covers
    bytes: int                   # all of it, with the parts below
    draft_bytes: int = 0         # of the part of the draft model or MTP head
    checkpoint_bytes: int = 0    # of the checkpoints that an entry contains
    entry_type: str = ""         # type that the engine gives an entry


class DraftMemory(NamedTuple):
    """Memory of the draft model or MTP head for a slot: rows held, their first and last position (-1 = none), last
    position in its recurrent state (-1 = none), declared bytes."""

    rows: int
    pos_min: int
    pos_max: int
    state_pos: int
    bytes: int


class BlockCell(NamedTuple):
    """A block of a pool that requests share, for pictures."""

    id: int                      # its number
    group: int                   # group of layers of its key, -1 = it has no key
    tokens: int                  # length of the prefix that its key stands for, 0 = it has no key
    owner: int                   # request that last took it from the free list, -1 = none
    refs: int                    # requests that use it
    place: int                   # its place in the free list, from 0; -1 = in use
    keys: int = 0                # number of its keys


class TreeCell(NamedTuple):
    """A node of a radix tree that requests share, for pictures. Parts: "rows", "window", "state"."""

    id: int                      # its number
    parent: int                  # number of its parent, 0 = the root, which is not a cell
    start: int                   # tokens of the prefix before it
    end: int                     # tokens of the prefix up to its end
    held: Sequence[str]          # parts that it has
    lacks: Sequence[str]         # parts of the memory that it lacks
    locks: int                   # requests that lock it


class TokenPrefix(NamedTuple):
    """The first ``n`` tokens of a list. An engine returns the same list again while it can, so that a caller recognises
    it without comparing tokens."""

    tokens: Tokens
    n: int


class ExceededLimit(NamedTuple):
    """An exceeded limit: ``held`` units of ``what`` where ``most`` are allowed. ``holder`` begins the sentence: "slot 0
    has"."""

    what: str
    held: int
    most: int
    holder: str = ""


Key = tuple[str, int, int]
"""Key of an existing restore point: the engine's noun for its kind (``point_kinds`` has those that other code knows),
its slot or the number of its owner (-1 = no owner), and a number that is unique within the kind."""


class RestorePoint(NamedTuple):
    """A restore point. The object with this ``key`` covers ``n`` tokens. Evaluation could resume after ``lo``, ``lo +
    step``, .. ``hi`` tokens (``lo`` > ``hi``: after none), judged only by which rows and states are present. Judging
    decides whether their content is correct.

    ``tokens`` are the tokens from position ``start`` on. The tokens before ``start``, and their rows of full attention,
    are those of ``after``: another point, or an earlier version of this point; None = such tokens do not exist.
    """

    key: Key
    n: int
    tokens: Tokens
    start: int
    after: Key | None
    lo: int
    hi: int
    step: int = 1
