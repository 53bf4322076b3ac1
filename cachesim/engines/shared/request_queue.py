"""Base of servers without slots, which batch requests: receive requests, and record generated tokens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cachesim.base.errors import BadInput
from cachesim.engines.base import Answer, Output, Request
from cachesim.engines.shared.server_loop import Driver
from cachesim.engines.shared.vocab import CountingSampler
from cachesim.model import Hidden, Model


@dataclass(slots=True, eq=False)
class ReceivedRequest:
    """A received request and its answer."""

    id: int
    request: Request
    answer: Answer


class RequestQueue(Driver):
    """A server that refuses what it cannot batch. ``longest``: length of the longest request [tokens]; ``too_long``:
    text of the refusal of a longer one, with {n} and {most}."""

    queue: deque[ReceivedRequest]
    sampler: CountingSampler
    model: Model | None
    longest: int
    too_long: str

    def submit(self, request: Request) -> Answer:
        """Queue a request and return its answer, which the server fills as it works. Raises BadInput for an unsupported
        request."""
        if request.kind != "completion" or request.n_cmpl != 1:
            raise BadInput("only single completions are modelled for this engine")
        if not request.prompt:
            raise BadInput("an empty prompt is not modelled for this engine")
        answer, n = Answer(self.log.mark()), len(request.prompt)
        if n >= self.longest:
            answer.fails(400, self.too_long.format(n=n, most=self.longest), "prompt-too-long", prompt=n,
                         most=self.longest)  # fmt: skip
            answer.done = True
        else:
            self.queue.append(ReceivedRequest(answer.request, request, answer))
        return answer

    def slot(self, action: str, id_slot: int, file: Path | None = None, percent: int = 100) -> dict[str, Any]:
        """Raise BadInput: this server does not have slots to save."""
        raise BadInput(f"this server has no slots to {action}", hint="restart")

    @property
    def n_ctx_slot(self) -> int:
        """Length of the longest request [tokens]."""
        return self.longest

    def record_output(self, task: ReceivedRequest, tokens: list[int], hidden: Hidden | None) -> None:
        """Record the model output after the last of a request's tokens, and append the next token."""
        answer, digest, logits = task.answer, 0, None
        if hidden is not None and self.model is not None:
            digest = int(hidden.digest[-1])
            logits = self.model.readout(hidden.x[-1:])[0] if hidden.x is not None else None
        answer.outputs.append(Output(len(tokens) - 1, digest, logits))
        token = self.sampler(tokens, task.request, answer.predicted_n)
        tokens.append(token)
        answer.tokens.append(token)
        answer.predicted_n += 1
