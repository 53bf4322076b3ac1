"""Everything that is known about one request of a run, once it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import Stored
from cachesim.judging.compare_answer import Judged
from cachesim.judging.recompute_ledger import Account


class Slot(NamedTuple):
    """What was in the slot when its request was launched: tokens, and how many of them the prompt begins with; after
    what the prompt cache had put there."""

    held: int
    lcp: int


@dataclass(slots=True)
class Judgement:
    """One step of a run: its answer, the verdicts, the recompute account; afterwards: the lengths of the slot's
    checkpoints, and how many conversations were stored. ``slot``: what it found (None = it never had one); ``began``:
    what the memory held when the evaluation of a wrong answer began, as far as that is known; ``spans``: pos_min and
    pos_max of the checkpoints, as far as there are such; ``stored``: the lengths of the stored conversations. A step
    that is no completion has an empty request and an answer without numbers."""

    request: Request
    answer: Answer
    judged: Judged
    account: Account
    checkpoints: list[int]
    entries: int = 0
    slot: Slot | None = None
    began: Stored | None = None
    spans: Sequence[tuple[int, int]] = ()
    stored: Sequence[int] = ()
