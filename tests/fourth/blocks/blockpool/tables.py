"""Block tables of requests: lookup, allocation and publication of blocks while a step is scheduled.

Source: vLLM vllm/v1/core/kv_cache_manager.py, single_type_kv_cache_manager.py (0.33.0).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple, Sequence

from blockpool.events import Evicted
from blockpool.flags import Options, longest
from blockpool.memory import Memory
from blockpool.point_tracker import BlockPoints, Chain
from blockpool.pool import UNKEYED, BlockPool
from blockpool.profiles import Rules
from blockpool.row import Row, Task
from blockpool.rules import Kept, Lookup
from cachesim import events as ev
from cachesim.base.tokens import Tokens
from cachesim.engines.contract import Server
from cachesim.engines.rule import Decision
from cachesim.engines.shared.server_loop import log_capture, log_decision
from cachesim.engines.shared.vocab import CountingSampler, Sampler, forced_or_hashed
from cachesim.model import Model, Spec

ROWS, STATE = 0, 1                       # groups of layers
NOUNS = "block", "state"


class Place(NamedTuple):
    """Position of a block in a prompt: all tokens known when it was published, and the end of the block."""

    tokens: Tokens
    end: int


@dataclass(slots=True)
class Hit:
    """Lookup result of a request: ``n`` tokens in these blocks."""

    n: int
    rows: list[int]
    state: int | None
    junction: int


class Tables(Server):
    """The block management of a server. ``slots``: all requests received so far."""

    def __init__(
        self, rules: Rules, spec: Spec, opts: Options, model: Model | None, log: ev.Log,
        sampler: Sampler = forced_or_hashed,
    ) -> None:
        self.rules, self.kind, self.opts, self.model, self.log, self.emit = rules, spec, opts, model, log, log.emit
        self.block = opts.block_size
        self.most = opts.max_model_len or longest(opts)
        self.memory = Memory(spec, self.block)
        self.has_rows, self.has_states = bool(self.memory.rows), bool(self.memory.recurrent)
        self.pool = BlockPool(opts.num_gpu_blocks, len(NOUNS), rules.side, self._evicted)
        self.places: dict[int, Place] = {}      # by block
        self.numbers: dict[bytes, int] = {}     # of hashes
        self.sampler = CountingSampler(sampler, log)
        self.slots: list[Row] = []
        self.queue: deque[Task] = deque()
        self.waiting: deque[Row] = deque()
        self.running: list[Row] = []
        self.promised: set[int] = set()         # blocks whose states this step computes
        self.evictions = 0
        self.points = BlockPoints(log, self.has_rows, self.has_states)
        self.published: list[tuple[int, int, Chain]] = []     # in this step, not computed yet

    def decide(self, decision: Decision, row: Row | None) -> Any:
        """Log a decision and return its value."""
        return log_decision(self.log, decision, row)

    def _evicted(self, block: int, keys: Sequence[int], cause: str) -> None:
        noun, place = NOUNS[keys[0] % len(NOUNS)], self.places.pop(block)
        decision = self.rules.evict(block, place.end)
        self.decide(decision, None)
        self.emit(Evicted(noun, place.end))
        self.evictions += 1
        self.points.lost((noun, block, 0), cause, decision.rule)

    def _find(self, digest: bytes, group: int) -> int | None:
        """Return the block of a group for a hash, None without one."""
        return self.pool.find(self.numbers.get(digest, UNKEYED), group)

    def _chain(self, row: Row, n: int) -> list[bytes]:
        """Return the hashes of the first n complete blocks of a request."""
        while len(row.chain) < n:
            at = len(row.chain) * self.block
            salt = str(row.task.request.extra.get("cache_salt", ""))
            parent = row.chain[-1] if row.chain else salt.encode()
            row.chain.append(self.rules.hash(parent, row.all[at : at + self.block]))
        return row.chain[:n]

    def look_up(self, row: Row) -> Hit:
        """Return the cached prefix of a request. Changes nothing."""
        if not (self.opts.enable_prefix_caching and row.task.request.cache_prompt):
            return Hit(0, [], None, 0)
        chain = self._chain(row, len(row.all) // self.block)
        rows: list[int] = []
        for digest in chain if self.has_rows else ():
            block = self._find(digest, ROWS)
            if block is None:
                break
            rows.append(block)
        states = {(i + 1) * self.block: block for i, digest in enumerate(chain if self.has_states else ())
                  if (block := self._find(digest, STATE)) is not None}
        decision = self.rules.find(Lookup(
            len(row.all), self.block, len(rows) if self.has_rows else None,
            sorted(states) if self.has_states else None, self.opts.use_eagle,
        ))  # fmt: skip
        n = self.decide(decision, row) or 0
        if not row.launched:
            row.task.answer.deciding = decision.rule
        return Hit(n, rows[: n // self.block], states.get(n), decision.because["junction"])

    def needed(self, row: Row, stop: int, hit: Hit | None = None) -> int:
        """Return the number of free blocks that a request takes up to ``stop``, including found blocks without
        users."""
        columns = -(-stop // self.block)
        have = hit.rows if hit else row.rows
        tables = len(hit.rows) if hit else len(row.states)
        rows = columns - len(have) if self.has_rows else 0
        states = int(columns > tables) if self.has_states else 0
        if hit and self.has_states and not self.has_rows:
            states = int(columns > hit.n // self.block)
        found = [*hit.rows, *([hit.state] if hit.state else [])] if hit else []
        return rows + states + sum(not self.pool.refs[block] for block in found)

    def attach(self, row: Row, hit: Hit) -> None:
        """Add the found blocks to a request."""
        self.pool.touch([*hit.rows, *([hit.state] if hit.state else [])])
        row.rows, row.named, row.computed, row.junction = list(hit.rows), hit.n // self.block, hit.n, hit.junction
        if self.has_states and hit.n:
            row.states = [*[None] * (hit.n // self.block - 1), hit.state]
            row.superseded = len(row.states) - 1

    def release(self, row: Row) -> None:
        """Release a superseded state."""
        at = row.superseded
        if at is None or row.states[at] is None:
            return
        if self.decide(self.rules.release(at, row.computed, self.block), row):
            self._drop(row, at)

    def _drop(self, row: Row, column: int) -> None:
        block = row.states[column]
        assert block is not None
        row.states[column] = None
        self.pool.give_back([block])

    def allocate(self, row: Row, stop: int) -> None:
        """Allocate blocks for a request up to ``stop``; the caller has checked that they are free. Complete blocks can
        be found at once."""
        columns = -(-stop // self.block)
        if self.has_rows:
            row.rows += self.pool.take(columns - len(row.rows))
        if self.has_states and columns > len(row.states):
            if row.states and row.states[-1] is not None:
                row.superseded = len(row.states) - 1
            row.states += [*[None] * (columns - len(row.states) - 1), *self.pool.take(1)]
        if self.opts.enable_prefix_caching:
            self._publish(row, stop)

    def _publish(self, row: Row, stop: int) -> None:
        """Publish the keys of complete blocks."""
        if min(stop, len(row.all)) // self.block > row.named:
            n = self.decide(self.rules.publish(stop, len(row.all), self.block), row)
            chain = self._chain(row, n)
            known = tuple(row.all)
            for i in range(row.named, n if self.has_rows else 0):
                self._name(row.rows[i], ROWS, chain, i, known)
            row.named = n
        if self.has_states and stop % self.block == 0 and stop <= len(row.all):
            self._promise(row, stop)

    def _promise(self, row: Row, stop: int) -> None:
        opts, at = self.opts, stop // self.block - 1
        ask = Kept(stop, row.prompt, self.block, row.junction, opts.prefix_cache_retention_interval, opts.use_eagle)
        block = row.states[at]
        assert block is not None
        if log_capture(self.log, self.rules.retain(ask), row):
            self._name(block, STATE, self._chain(row, at + 1), at, tuple(row.all))
            self.promised.add(block)

    def _name(self, block: int, group: int, chain: Sequence[bytes], i: int, known: Tokens) -> None:
        """Publish a block, unless it can be found already."""
        start, end = i * self.block, (i + 1) * self.block
        number = self.numbers.setdefault(chain[i], len(self.numbers))
        if self.pool.key[block] == UNKEYED:
            self.pool.add_key(group, block, number, end)
            self.places[block] = Place(known, end)
        key = number * len(NOUNS) + group
        self.published.append((block, key, Chain(chain[i], chain[i - 1] if i else None, known[start:end], end)))

    def computed(self) -> None:
        """Report the blocks published in this step as computed."""
        for block, key, chain in self.published:
            if self.pool.key[block] != key:
                continue
            group = key % len(NOUNS)
            if group == ROWS:
                self.points.rows((NOUNS[group], block, 0), chain)
            else:
                self.points.state((NOUNS[group], block, 0), chain, self.places[block].tokens[: chain.end])
        self.published.clear()

    def free_row(self, row: Row) -> None:
        """Give back all blocks of a request."""
        for group in row.used():
            self.pool.give_back(group)
        row.reset()
