"""A request that is served alone: prefilled in chunks, without checkpoints; perhaps with drafts of a second model.

With a draft model the caches of both models stand in one list. A round drafts k tokens, feeds them to the target behind
the token sampled last, accepts n of them and trims what was not accepted from both; nobody looks at what a trim says.
Source: mlx-lm mlx_lm/server.py _serve_single, mlx_lm/generate.py generate_step, speculative_generate_step (d78bf58e).
"""

from __future__ import annotations

from typing import Callable

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.batch import Row
from cachesim.engines.mlx_lm.caches import can_trim_prompt_cache, trim_prompt_cache
from cachesim.engines.mlx_lm.forward import forward
from cachesim.engines.mlx_lm.generator import Machine
from cachesim.engines.shared.vocab import WRONG
from cachesim.model import Hidden, Model, Spec


class Alone:
    """One request. ``paused`` is told of every chunk of the prompt that was fed."""

    def __init__(self, machine: Machine, row: Row, paused: Callable[[Row], None]) -> None:
        self.machine, self.row, self.paused = machine, row, paused
        self.step = machine.settings.prefill_step_size
        self.caches = row.caches
        self.unfed = 0                          # tokens at the end that were said and never evaluated

    def run(self, rest: Tokens) -> None:
        """Work until the last token, or until the client has gone."""
        self._prefill(rest[:-1])
        said = self._feed(rest[-1:])
        self.row.tokens.append(rest[-1])
        self.machine.speak(self.row, said)
        done = False
        while not done and not self._gone():
            token = self.row.next
            done = self.row.give()
            self.row.tokens.append(token)
            self.machine.speak(self.row, self._feed((token,)))

    def _prefill(self, tokens: Tokens) -> None:
        """The prompt without its last tokens, chunk by chunk."""
        for at in range(0, len(tokens), self.step):
            piece = tokens[at : at + self.step]
            self._feed(piece)
            self.row.tokens += piece
            self.paused(self.row)

    def _feed(self, tokens: Tokens) -> Hidden:
        return self.machine.feed(self.caches, [tokens])[0]

    def _gone(self) -> bool:
        """Has the client hung up? It is looked at after every token that was returned."""
        self.row.stop = self.row.n_gen > 0 and self.row.hung_up
        return self.row.stop


class Drafting(Alone):
    """One request with drafts. ``draft`` is the second model, as numbers and as layers."""

    def __init__(
        self, machine: Machine, row: Row, paused: Callable[[Row], None], draft: tuple[Model | None, Spec],
        start: Callable[[bool, int, int], int], most: Callable[[int, int], int],
    ) -> None:
        super().__init__(machine, row, paused)
        n = len(machine.kind.spec.layers)
        self.draft, self.behind, self.start, self.most = draft, self.caches[n:], start, most
        self.caches = self.caches[:n]

    def run(self, rest: Tokens) -> None:
        """Rounds until the last token. Raises ValueError if the target's caches should be trimmable and are not."""
        left = self.start(can_trim_prompt_cache(self.caches), len(rest), self.step)
        if not left:
            raise ValueError("speculative decoding needs caches that can be trimmed")
        first, fed = rest[: len(rest) - left], rest[len(rest) - left :]
        for at in range(0, len(first), self.step):
            self._echo(first[at : at + self.step])
        self._prefill(first)
        echo, drafted, accepted = fed, 0, 0
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
        """How many drafts of a round, behind so many other tokens, the target could give up again."""
        able = (n for n in range(usual, 0, -1) if all(layer.trimmable_after(fed + n) for layer in self.caches))
        return next(able, 0)

    def _budget(self) -> int:
        return max(1, self.row.request.n_predict) - self.row.n_gen

    def _drafts(self, last: int, k: int) -> tuple[Tokens, int]:
        """k tokens of which the first so many are what the target will say, as the request forces it."""
        row, request = self.row, self.row.request
        held = [*request.prompt, *row.task.answer.tokens]
        forced = next((d for d in request.drafts if d.at == len(held)), None)
        right = min(k, forced.accepted if forced else request.draft_else)
        tokens: list[int] = []
        for i in range(right):
            tokens.append(self.machine.sampler([*held, *tokens], request, row.n_gen + i))
        return (*tokens, *(WRONG + i for i in range(k - right))), right

    def _guess(self, echo: Tokens, draft: Tokens) -> None:
        """The draft model runs: behind what it has not seen, then behind each of its own tokens but the last."""
        if draft:
            self._echo(echo)
        for token in draft[:-1]:
            self._echo((token,))

    def _echo(self, tokens: Tokens) -> None:
        forward(*self.draft, self.behind, [tokens])

    def _round(self, fed: Tokens, draft: Tokens, right: int) -> int:
        """Feed what was sampled last and the draft; returns how many drafted tokens were accepted."""
        row, tokens = self.row, (*fed, *draft)
        said = self._feed(tokens)
        if not row.n_gen:
            row.tokens += fed                   # of the prompt; later ones were noted when they were returned
        said = said.part(len(fed) - 1, len(tokens))
        row.task.answer.draft_n += len(draft)
        n = 0
        while n < right and self._budget() and not row.stop:
            self._say(said, n)
            n += 1
        self.unfed = int(self._budget() > 0 and not row.stop)
        if self.unfed:
            self._say(said, n)
        row.task.answer.draft_n_accepted += n
        return n

    def _say(self, said: Hidden, n: int) -> None:
        """The target has spoken after the n-th of its tokens; what it says is returned at once."""
        row = self.row
        self.machine.speak(row, said.part(n, n + 1))
        token = row.next
        row.give()
        row.tokens.append(token)
        self._gone()

    def _rewind(self, drafted: int, accepted: int) -> None:
        trim_prompt_cache(self.caches, drafted - accepted)
        trim_prompt_cache(self.behind, max(drafted - accepted - 1, 0))
