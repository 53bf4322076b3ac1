"""Requests that are served alone: prefilled in chunks, without checkpoints, optionally with a draft model.

With a draft model, a common list holds the caches of both models. A round drafts k tokens and feeds them to the target
after the last sampled token. It accepts n of them and trims the rest from both models; the result of the trim is
ignored.
Source: mlx-lm mlx_lm/server.py _serve_single, mlx_lm/generate.py generate_step, speculative_generate_step (d78bf58e).
"""

from __future__ import annotations

from typing import Callable

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Row
from cachesim.engines.mlx_lm.caches import can_trim_prompt_cache, trim_prompt_cache
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.generator import Machine, offsets
from cachesim.engines.shared.vocab import WRONG
from cachesim.events import MicroBatch
from cachesim.model import HiddenOutput, Model, Spec


class UnbatchedRequest:
    """A request without drafts. ``paused`` is called after every fed chunk of the prompt."""

    def __init__(self, machine: Machine, row: Row, paused: Callable[[Row], None]) -> None:
        self.machine = machine
        self.row = row
        self.paused = paused
        self.step = machine.settings.prefill_step_size
        self.caches = row.caches
        self.unfed = 0                          # tokens at the end that were returned and never evaluated

    def run(self, rest: Tokens) -> None:
        """Evaluate until the last token, or until the client has disconnected."""
        self._prefill(rest[:-1])
        hidden = self._feed(rest[-1:])
        self.row.tokens.append(rest[-1])
        self.machine.record_output(self.row, hidden)
        done = False
        while not done and not self._gone():
            token = self.row.next
            done = self.row.return_sampled()
            self.row.tokens.append(token)
            self.machine.record_output(self.row, self._feed((token,)))

    def _prefill(self, tokens: Tokens) -> None:
        """Feed the prompt without its last tokens, in chunks."""
        for at in range(0, len(tokens), self.step):
            piece = tokens[at : at + self.step]
            self._feed(piece)
            self.row.tokens += piece
            self.paused(self.row)

    def _feed(self, tokens: Tokens) -> HiddenOutput:
        return self.machine.feed(self.caches, [tokens], [self.row])[0]

    def _gone(self) -> bool:
        """True if the client has disconnected. Checked after every returned token."""
        self.row.stop = self.row.n_gen > 0 and self.row.has_hung_up
        return self.row.stop


class SpeculativeRequest(UnbatchedRequest):
    """A request with drafts. ``draft``: the second model, or None if nothing is computed, and its layers."""

    def __init__(
        self, machine: Machine, row: Row, paused: Callable[[Row], None], draft: tuple[Model | None, Spec],
        start: Callable[[bool, int, int], int], most: Callable[[int, int], int],
    ) -> None:
        super().__init__(machine, row, paused)
        n = len(machine.kind.spec.layers)
        self.draft = draft
        self.draft_caches = self.caches[n:]
        self.start = start
        self.most = most
        self.caches = self.caches[:n]

    def run(self, rest: Tokens) -> None:
        """Run rounds until the last token. Raise ValueError if the version requires trimmable target caches and they
        are not."""
        left = self.start(can_trim_prompt_cache(self.caches), len(rest), self.step)
        if not left:
            raise ValueError("speculative decoding requires a trimmable prompt cache")
        first, fed = rest[: len(rest) - left], rest[len(rest) - left :]
        for at in range(0, len(first), self.step):
            self._echo(first[at : at + self.step])
        self._prefill(first)
        echo = fed
        drafted = 0
        accepted = 0
        while True:
            usual = min(self._budget(), self.machine.settings.flags.num_draft_tokens)
            drafted = self.most(usual, self._room(usual, len(fed)))
            draft, right = self._drafts(fed[-1], drafted)
            self._guess(echo, draft)
            accepted = self._round(fed, draft, right)
            if self._budget() == 0 or self.row.stop:
                break
            fed = (self.row.task.answer.tokens[-1],)
            echo = (*draft[-1:], *fed) if accepted == drafted else fed
            self._rewind(drafted, accepted)
        self._rewind(drafted, accepted)

    def _room(self, usual: int, fed: int) -> int:
        """Return how many drafts of a round the target could remove again, if ``fed`` other tokens precede them."""
        able = (n for n in range(usual, 0, -1) if all(layer.trimmable_after(fed + n) for layer in self.caches))
        return next(able, 0)

    def _budget(self) -> int:
        return max(1, self.row.request.n_predict) - self.row.n_gen

    def _drafts(self, last: int, k: int) -> tuple[Tokens, int]:
        """Return k draft tokens and the number of them that the target will accept, as the request forces it. The
        accepted tokens come first."""
        row, request = self.row, self.row.request
        held = [*request.prompt, *row.task.answer.tokens]
        forced = next((d for d in request.drafts if d.at == len(held)), None)
        right = min(k, forced.accepted if forced else request.draft_else)
        tokens: list[int] = []
        for i in range(right):
            tokens.append(self.machine.sampler([*held, *tokens], request, row.n_gen + i))
        return (*tokens, *(WRONG + i for i in range(k - right))), right

    def _guess(self, echo: Tokens, draft: Tokens) -> None:
        """Run the draft model: on the tokens that it has not evaluated, then on each of its drafts but the last."""
        if draft:
            self._echo(echo)
        for token in draft[:-1]:
            self._echo((token,))

    def _echo(self, tokens: Tokens) -> None:
        pos = offsets(self.draft_caches, 1)[0]
        self.machine.log.emit(MicroBatch("draft", ((self.row.id, pos, len(tokens)),)))
        forward(*self.draft, self.draft_caches, [tokens])

    def _round(self, fed: Tokens, draft: Tokens, right: int) -> int:
        """Feed the tokens sampled last and the draft. Return the number of accepted draft tokens."""
        row, tokens = self.row, (*fed, *draft)
        hidden = self._feed(tokens)
        if not row.n_gen:
            row.tokens += fed                   # of the prompt; later tokens were added when they were returned
        hidden = hidden.part(len(fed) - 1, len(tokens))
        row.task.answer.draft_n += len(draft)
        n = 0
        while n < right and self._budget() and not row.stop:
            self._return_token(hidden, n)
            n += 1
        self.unfed = int(self._budget() > 0 and not row.stop)
        if self.unfed:
            self._return_token(hidden, n)
        row.task.answer.draft_n_accepted += n
        return n

    def _return_token(self, hidden: HiddenOutput, n: int) -> None:
        """Sample the target's token after the n-th of ``hidden`` and return it to the client."""
        row = self.row
        self.machine.record_output(row, hidden.part(n, n + 1))
        token = row.next
        row.return_sampled()
        row.tokens.append(token)
        self._gone()

    def _rewind(self, drafted: int, accepted: int) -> None:
        trim_prompt_cache(self.caches, drafted - accepted)
        trim_prompt_cache(self.draft_caches, max(drafted - accepted - 1, 0))
