"""Scheduler: order of the queue, admission, chunks, retraction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from cachesim.base.tokens import common_prefix
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node
from cachesim.engines.sglang.mem_cache.unified_radix_cache import Match
from cachesim.engines.sglang.publication import Publication
from cachesim.engines.sglang.request_row import Row
from cachesim.engines.sglang.rules import schedule as s


class Part(NamedTuple):
    """Tokens start .. stop-1 of a request that a step evaluates; ``track``: length of the state to keep, None =
    none."""

    row: Row
    start: int
    stop: int
    track: int | None = None


@dataclass(slots=True)
class Budget:
    """Rest of the budgets of a prefill step: tokens of prompts, tokens of chunks (None = unlimited); slots promised to
    admitted and running requests: in all, now, and of the window."""

    input: int
    chunk: int | None
    promised: float = 0
    now: int = 0
    window: int = 0


class Scheduler(Publication):
    """Choice of the requests of a step."""

    passes = 0               # passes over the queue
    queue_seen: list[Row]    # the queue as the policy sorted it last
    facts: list[s.Waiting]   # what the policy knew of it

    # Queue.

    def sort_queue(self) -> None:
        """Sort the waiting requests by the policy."""
        rules, opts, rows = self.rules, self.opts, self.waiting
        many = opts.schedule_policy == "lpm" and len(rows) > rules.many_waiting
        policy = "fcfs" if many else opts.schedule_policy
        late = self._match_waiting() if policy in s.AWARE else set()
        places = self._tree_places() if policy == "dfs-weight" else {}
        facts = [s.Waiting(len(row.all), min(row.matched, len(row.all) - 1) if policy in s.AWARE else 0,
                           row.task.request.n_predict, row.id in late, places.get(row.id, 0))
                 for row in rows]  # fmt: skip
        order = self.decide(rules.queue_order(policy, facts), None)
        self.waiting, self.facts = [rows[k] for k in order], [facts[k] for k in order]
        if policy not in s.AWARE and self.waiting:
            if opts.radix_eviction_policy in rules.refreshed and self.passes % rules.refresh == 0:
                for row in self.waiting[::-1]:
                    self.find(row, len(row.all))
                    self.report()
            self.passes += 1

    def _match_waiting(self) -> set[int]:
        """Match all waiting requests; return those that should wait for another request of the queue."""
        late, twins = set[int](), list[Row]()
        for row in self.waiting:
            self.match(row, len(row.all), False)
            if row.prefix > self.opts.in_batch_threshold:
                continue
            common = max((common_prefix(row.all, twin.all) for twin in twins if twin.space == row.space), default=0)
            if self.rules.waits_for_twin(common, self.opts.in_batch_threshold):
                late.add(row.id)
            else:
                twins.append(row)
        return late

    def _tree_places(self) -> dict[int, int]:
        """Return the place of each waiting request in a walk of the tree, see ``heaviest_first``."""
        ends: dict[Node, list[int]] = {}
        for row in self.waiting:
            if row.node is not None:
                ends.setdefault(row.node, []).append(row.id)
        return {number: place for place, number in enumerate(self.tree.heaviest_first(ends))}

    # Prefill.

    def choose_prefill(self, verdicts: list[list[Any]]) -> list[Row] | None:
        """Return the requests of a prefill step; None if the server does not try one."""
        opts = self.opts
        held = len(self.running) + (self.chunked is not None)
        self.full = self.full and bool(self.running) and self.rules.stays_full(bool(self.window))
        if self.chunked is None and (self.full or not self.waiting or held >= opts.max_running_requests):
            return None
        self.sort_queue()
        budget = Budget(opts.max_prefill_tokens, opts.chunked_prefill_size if opts.chunked_prefill_size > 0 else None)
        budget.promised = sum(min(row.left, s.CLIP) * opts.new_token_ratio for row in self.running)
        chosen: list[Row] = []
        if self.chunked is not None:
            self._continue_chunk(self.chunked, budget, chosen)
        held -= len(chosen)
        for row in self.waiting:
            if self.full or held + len(chosen) >= opts.max_running_requests or self._spent(budget) == s.OTHER:
                break
            found = self.match(row, len(row.all) - 1, True)
            row.protected = row.prefix
            verdict = self._admit(row, found, budget, chosen)
            verdicts.append([row.id, verdict])
            if verdict != s.CONTINUE:
                self.full = verdict == s.NO_TOKEN and bool(self.running)
                break
        self.queue_seen = self.waiting
        self.waiting = [row for row in self.waiting if row not in chosen]
        return chosen

    def _spent(self, budget: Budget) -> str:
        """Return whether further requests can be admitted."""
        if self.free_slots(FULL) <= max(budget.promised, budget.now) or (
                self.window and self.free_slots(SWA) <= budget.window):  # fmt: skip
            return s.NO_TOKEN
        return s.OTHER if budget.input <= 0 or (budget.chunk is not None and budget.chunk <= 0) else s.CONTINUE

    def _take_chunk(self, row: Row, n: int, budget: Budget, chosen: list[Row]) -> None:
        """Add a chunk of ``n`` tokens to the step, and charge it to the budgets."""
        chosen.append(row)
        tokens, rest = s.ceil(n, self.page), len(row.all) - row.prefix - n
        answer = self.rules.reserve_later(rest, min(row.task.request.n_predict, s.CLIP))
        budget.promised += tokens + self.page + answer
        budget.now += tokens + self.page
        if self.window:
            budget.window += s.window_need(tokens, answer, budget.chunk, self.retained, self.page)
        budget.input -= tokens
        if budget.chunk is not None:
            budget.chunk -= tokens
        row.stop = row.prefix + n
        if rest:
            self.chunked = row

    def _continue_chunk(self, row: Row, budget: Budget, chosen: list[Row]) -> None:
        """Add the next chunk of the request whose prompt is being evaluated."""
        assert budget.chunk is not None
        window = self.free_slots(SWA) - budget.window if self.window else None
        fits = self.rules.next_chunk(budget.chunk, self.free_slots(FULL) - budget.promised, window, self.page)
        if not fits:
            return
        left = len(row.all) - row.prefix
        if self.opts.schedule_policy == s.SHORTEST:
            fits = min(fits, self.rules.chunk_share(left, self.facts, budget.chunk, self.page))
        self.chunked = None
        self._take_chunk(row, min(left, fits), budget, chosen)

    def _admit(self, row: Row, found: Match, budget: Budget, chosen: list[Row]) -> str:
        """Admit a request if there is room; return the verdict."""
        pin = self.tree.lock(found.node)
        window = self.free_slots(SWA) - budget.window if self.window else None
        size = 0 if self.kv.window is None else self.kv.window.size
        total, left = self.free_slots(FULL) - budget.promised, max(row.left, 0)
        cut = self.chunked is not None and self.opts.schedule_policy == s.SHORTEST
        loads = row.matched - row.prefix
        ask = s.Candidate(len(row.all) - row.matched, row.matched, left, not chosen, budget.input, budget.chunk, total,
                          window, size, self.retained, self.page, cut, loads)  # fmt: skip
        n = self.decide(self.rules.admission(ask), row)
        if n and loads and not self.load_back(row, found.last, loads):
            ask = ask._replace(n=ask.n + loads, hit=row.prefix, loads=0)
            n = self.decide(self.rules.admission(ask), row)
        if n:
            row.lock = row.lock or self.tree.lock(found.node)
            self._take_chunk(row, n, budget, chosen)
        self.tree.unlock(pin)
        if not n:
            row.copied = None
            self.settle(row, None, finished=True)
            return s.NO_TOKEN if n is None else s.OTHER
        return self._spent(budget)

    def allocate_prefill(self, chosen: list[Row]) -> list[Part]:
        """Allocate the slots of a prefill step and return its parts."""
        if STATE in self.parts:
            tracks = 2 if self.buffered else 0
            needed = sum((row.state is None) + (row.track is None) * tracks for row in chosen)
            self.evict(0, 0, max(0, needed - self.states.available))
            for row in chosen:
                row.state = self.take_state() if row.state is None else row.state
                if self.buffered and row.track is None:
                    row.track, row.last_track = [self.take_state(), self.take_state()], 1
        total = sum(row.stop - row.prefix for row in chosen)
        spare = self.rules.spare_pages * self.page * len(chosen) if self.page > 1 else 0
        self.make_room(total + spare)
        for row in chosen:
            if not row.allocated and row.node is not None:
                row.append(self.tree.slots(row.node))
            self.allocate(row, row.stop)
        return [self._tracked_part(row) for row in chosen]

    def _tracked_part(self, row: Row) -> Part:
        """Return the chunk of a request, with the state that it keeps."""
        end = None
        if row.track is not None:
            grid = s.ceil(self.opts.state_grid, self.page)
            end = self.decide(self.rules.track_prefill(row.prefix, row.stop, row.branch, grid), row)
        if end is not None:
            row.last_track, row.tracked = 1 - row.last_track, end
        return Part(row, row.prefix, row.stop, end)

    # Decode.

    def prepare_decode(self, retracted: list[int], oom: list[int]) -> list[Part]:
        """Return the parts of a decode step, after retracting requests if it does not fit."""
        for name in self.rules.decode_order:
            if name == "retract":
                self._retract(retracted, oom)
            else:
                self._slide_windows()
        return self._allocate_decode() if self.running else []

    def _retract(self, retracted: list[int], oom: list[int]) -> None:
        """Retract running requests until the next step fits."""
        if self._fits(self.running):
            return
        rows = list(self.running)
        order = self.decide(self.rules.retract_order([(row.task.answer.predicted_n, row.prompt) for row in rows]), None)
        first = True
        while len(order) > 1 and (first or not self._fits([rows[k] for k in order])):
            first = False
            self._put_back(rows[order.pop()], len(order), retracted)
        if len(order) <= 1 and not self._fits([rows[k] for k in order]):
            row = rows[order.pop()]
            oom.append(row.id)
            row.task.answer.fails(500, "Out of memory even after retracting all other requests in the decode batch. "
                                  "Aborting the last request.", "no-room")  # fmt: skip
            self.leave(row, "none", keep=False)
        self.running = [rows[k] for k in self.rules.kept_order(order)]

    def _fits(self, rows: list[Row]) -> bool:
        need = sum(max(0, s.ceil(row.computed + self.ahead, self.page) - s.ceil(row.allocated, self.page))
                   for row in rows)  # fmt: skip
        self.make_room(need)
        return self.kv.available >= need

    def _put_back(self, row: Row, remaining: int, retracted: list[int]) -> None:
        """Return a request to the queue. Nothing of it is inserted."""
        retracted.append(row.id)
        self.decline(row, row.protected, self.rules.retract_order)
        self.release(row, keep=False)
        self.make_room(self.rules.retract_steps * remaining)
        row.restart()
        self.waiting.append(row)
        self.full = False

    def _slide_windows(self) -> None:
        """Let generating requests give back the window slots that they no longer read."""
        for row in self.running if self.window else ():
            if self.rules.slides(row.steps, self.retained):
                self.release_frontier(row, self.rules.window_frontier, len(row.all) - 1,
                                      self.opts.swa_eviction_interval)  # fmt: skip

    def _allocate_decode(self) -> list[Part]:
        """Allocate the slots of each running request, with drafts in whole pages, and return the parts of the step."""
        rows, page = self.running, self.page
        stops = [max(row.allocated, s.ceil(row.computed + self.ahead, page if self.drafted else 1)) for row in rows]
        spare, need = self.rules.decode_pages * page * len(rows), sum(stops) - sum(row.allocated for row in rows)
        if self.drafted:
            spare = need + (spare if page > 1 else 0) if need else 0
        self.make_room(spare)
        grid = s.ceil(self.opts.state_grid, page)
        for row, stop in zip(rows, stops, strict=True):
            self.allocate(row, stop)
            right = row.task.request.right_drafts(row.computed)
            row.steps, row.stop = row.steps + 1, row.computed + 1 + min(self.drafted, right)
            track = self.rules.track_decode(row.computed, row.stop, grid, self.opts.mamba_track_interval)
            row.mark = None if row.track is None else self.decide(track, row)
        return [self.decode_part(row) for row in rows]

    def decode_part(self, row: Row) -> Part:
        """Return the next token of a request in a decode step."""
        n = row.computed + 1
        if row.mark != n:
            return Part(row, n - 1, n)
        row.tracked_before, row.tracked, row.last_track = row.tracked, n, 1 - row.last_track
        return Part(row, n - 1, n, n)
