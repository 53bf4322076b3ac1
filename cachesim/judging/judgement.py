"""Record of all findings about a request of a judged run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Mapping, NamedTuple, Sequence

from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import DraftMemory, StoredObject, StoredSize
from cachesim.judging.compare_answer import RequestVerdict
from cachesim.judging.recompute_ledger import RequestLedger


class SlotAtLaunch(NamedTuple):
    """State of the slot when its request was launched, after a load from the prompt cache: tokens held, and length of
    the common prefix with the prompt."""

    held: int
    lcp: int


@dataclass(slots=True, repr=False)
class Judgement:
    """A step of a run: its answer, the verdicts, the recompute ledger, and the caches after it. A step that is not a
    completion has an empty request and an answer without numbers."""

    request: Request
    answer: Answer
    judged: RequestVerdict
    ledger: RequestLedger
    checkpoints: list[int]                       # lengths of the slot's checkpoints afterwards [tokens]
    entries: int = 0                             # conversations in the prompt cache afterwards
    slot: SlotAtLaunch | None = None  # None = the request never had a slot
    began: StoredObject | None = None  # memory at the start of the evaluation of a wrong answer, if known
    spans: Sequence[tuple[int, int]] = ()        # pos_min and pos_max of the checkpoints that have them
    stored: Sequence[int] = ()                   # lengths of the stored conversations [tokens]
    reply: Mapping[str, Any] = field(default_factory=dict)   # reply to a step that is not a completion
    sizes: Sequence[StoredSize] = ()             # sizes of all stored objects afterwards, [] without a ledger
    draft: DraftMemory | None = None             # memory of the draft model for the slot afterwards
    place: int = 0                               # number of steps that were answered before
    n_ctx: int = 0                               # context of a slot [tokens] after a start of the server, else 0
    stored_bytes: int = 0                        # bytes of checkpoints and stored conversations afterwards
    uncounted: int = 0                           # of them, bytes kept alive beyond the objects' own size
    slot_tokens: int | None = None               # tokens in its slot afterwards, None = without a slot

    @property
    def re_evaluated(self) -> int:
        """Number of tokens of the prompt that were evaluated although they were evaluated before."""
        return sum(charge.tokens for charge in self.ledger.charges)

    def __repr__(self) -> str:
        verdict = self.judged.wrong or self.judged.answer
        return (f"<Judgement of request {self.answer.request}: {verdict.word}, {self.answer.cache_n} of "
                f"{len(self.request.prompt)} prompt tokens reused, {self.re_evaluated} re-evaluated>")  # fmt: skip
