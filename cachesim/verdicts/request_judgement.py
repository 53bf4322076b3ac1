"""Everything that is known about one request of a run, once it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.engines.base import Answer, Request
from cachesim.verdicts.cold_comparison import Judged
from cachesim.verdicts.lost_tokens import Account


@dataclass(slots=True)
class Judgement:
    """One step of a run: its answer, the verdicts, the bill; afterwards: the lengths of the slot's checkpoints, and how
    many conversations were stored. A step that is no completion has an empty request and an answer without numbers."""

    request: Request
    answer: Answer
    judged: Judged
    account: Account
    checkpoints: list[int]
    entries: int = 0
