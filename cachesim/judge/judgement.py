"""Everything that is known about one request of a run, once it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from cachesim.engines.base import Answer, Request
from cachesim.judge.blame import Account
from cachesim.judge.judge import Judged


@dataclass(slots=True)
class Judgement:
    """One request of a run: its answer, the verdicts, the bill, the lengths of the slot's checkpoints afterwards."""

    request: Request
    answer: Answer
    judged: Judged
    account: Account
    checkpoints: list[int]
