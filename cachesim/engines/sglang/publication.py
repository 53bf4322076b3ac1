"""Exchange between requests and the tree: match, checkpoint, release, allocation."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Callable, Sequence

from cachesim import events as log_events
from cachesim.base.errors import BadInput, ProcessAborted
from cachesim.engines.rule import rule_id
from cachesim.engines.sglang import events as ev
from cachesim.engines.sglang.flags import Options, window_slots
from cachesim.engines.sglang.mem_cache.allocator import KvPools, StatePool
from cachesim.engines.sglang.mem_cache.pool_host import HostTier
from cachesim.engines.sglang.mem_cache.tree_points import FULL, STATE, SWA, TreePoints
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node
from cachesim.engines.sglang.mem_cache.unified_radix_cache import Insertion, Match, Tree
from cachesim.engines.sglang.profiles.rule_table import Rules
from cachesim.engines.sglang.request_row import Row
from cachesim.engines.sglang.rules.request import Window
from cachesim.engines.sglang.tree_server import TreeServer
from cachesim.engines.shared.kv_rows import empty_rows


class Publication(TreeServer):
    """The memory of a server, and what requests take from it and leave in it."""

    rules: Rules
    tree: Tree
    opts: Options

    def start_memory(self) -> None:
        """Create an empty memory."""
        rules, spec, opts = self.rules, self.kind, self.opts
        self.page, self.longest = opts.page_size, opts.max_total_tokens - 2 * opts.page_size
        self.most_running = opts.max_running_requests
        self.window = max((layer.window for layer in spec.layers), default=0)
        has_states = any(layer.recurrence for layer in spec.layers)
        self.parts = (FULL, *((SWA,) if self.window else ()), *((STATE,) if has_states else ()))
        self.retained = rules.retained_window(self.window, opts.draft_window) if self.window else 0
        self.pairs = int(rules.keys_are_pairs(opts.speculative_algorithm, self.parts))
        self.drafted = opts.speculative_num_steps if opts.speculative_algorithm else 0
        self.ahead = rules.reserved_ahead(self.drafted)
        self.buffered = opts.mamba_scheduler_strategy == "extra_buffer"
        self.kv = KvPools(self.page, opts.max_total_tokens, window_slots(opts) if self.window else None)
        self.states = StatePool(opts.max_mamba_cache_size)
        self.rows = empty_rows(i for i, layer in enumerate(spec.layers) if layer.part)
        host = None
        if opts.enable_hierarchical_cache:
            if self.parts != (FULL,):
                raise BadInput("HiCache is not modelled for windows and states", hint="a model of full attention")
            slots = rules.host_slots(opts.max_total_tokens, opts.hicache_ratio, self.page)
            host = HostTier(slots, self.page, self.rows if self.model is not None else {})
        self.tree = Tree(rules, opts, self.parts, self.retained, self.kv, self.states, host)
        self.points = TreePoints(self.tree, self.log)
        self.chunked: Row | None = None
        self.full = False               # a request was refused, and no request has left since

    # Allocation.

    def take_state(self) -> int:
        """Take a slot for a state; evict one if necessary."""
        if not self.states.available:
            self.evict(0, 0, 1)
        slot = self.states.take()
        if slot is None:
            raise ProcessAborted("Can not alloc mamba cache", "no-state-slot")
        return slot

    def allocate(self, row: Row, stop: int) -> None:
        """Allocate the slots of a request up to ``stop``; the caller has made room."""
        if -(-stop // self.page) - -(-row.allocated // self.page) > self.kv.available // self.page:
            raise ProcessAborted("Out of memory. Try to lower your batch size.", "out-of-slots")
        last = int(row.buffer[row.allocated - 1]) if row.allocated else -1
        row.append(self.kv.extend(last, row.allocated, stop))

    # Match.

    def key(self, tokens: Sequence[int]) -> Any:
        """Return tokens as the tree compares them."""
        return tuple(pairwise(tokens)) if self.pairs else tuple(tokens)

    def find(self, row: Row, limit: int) -> Match:
        """Match the first ``limit`` tokens of a request in the tree."""
        return self.tree.match(self.key(row.all), row.space, max(0, limit - self.pairs))

    def match(self, row: Row, limit: int, cow: bool) -> Match:
        """Match the tokens of a request. ``cow``: it starts now, and gets a copy of the state."""
        if self.opts.disable_radix_cache or not row.task.request.cache_prompt:
            limit = 0
        found = self.find(row, limit)
        self.report()
        row.node, row.prefix, row.matched = found.node, found.node.end, found.last.end
        row.window_branch = found.window_branch
        if found.state_branch is not None or cow:
            row.branch = found.state_branch
        if cow:
            decision = self.rules.best_hit(found.found)
            self.decide(decision, row)
            row.task.answer.deciding = row.task.answer.deciding or decision.rule
        if cow and STATE in self.parts and found.node.value[STATE] is not None:
            self._copy_state(row, found)
        self.emit(ev.Matched(row.id, limit, found.found.hit, found.found.full, found.state_branch, found.window_branch,
                             int(cow and STATE in self.parts)))  # fmt: skip
        return found

    def load_back(self, row: Row, last: Node, tokens: int) -> bool:
        """Copy so many tokens before a node that are in host memory only to the device; return whether it was done."""
        decision = self.rules.load_back(tokens)
        row.task.answer.deciding = decision.rule
        if self.decide(decision, row) is None:
            return False
        row.lock = self.tree.lock(last)
        self.make_room(tokens)
        self.tree.load(last, self.kv.extend(-1, 0, tokens))
        self.report()
        row.node, row.prefix, row.protected = last, last.end, last.end
        return True

    def _copy_state(self, row: Row, found: Match) -> None:
        """Give a request a slot for its running state, to be copied from the state of the matched node."""
        if row.state is None:
            row.state = self.states.take()
            if row.state is None:
                lock = self.tree.lock(found.node)
                row.state = self.take_state()
                self.tree.unlock(lock._replace(mark=self.rules.copy_unlock(lock.mark)))
        row.copied = found.node.value[STATE]

    # Checkpoint and release.

    def release_frontier(self, row: Row, rule: Callable[..., tuple[int, int]], pos: int, interval: int = 1) -> None:
        """Give back the window slots of a request that lie before its window."""
        if self.window:
            floor = row.tracked - self.retained if STATE in self.parts and row.tracked is not None else None
            ask = Window(pos, row.evicted, row.protected, floor, self.retained, self.page, interval)
            start, stop = rule(ask)
            if stop > start:
                self.kv.free_window(row.buffer[start:stop])
            row.evicted = max(row.evicted, start, stop)

    def checkpoint(self, row: Row, n: int, finished: bool = False) -> None:
        """Insert the first ``n`` tokens of a request into the tree, and move its lock to where they end."""
        n, state = self._offer(row, max(0, n - self.pairs), finished)
        branched = n == row.window_branch and n > row.protected and STATE not in self.parts
        if not finished:
            self.release_frontier(row, self.rules.chunk_frontier, n - 1)
        done = None
        if n:
            whole = self.decide(self.rules.publish_pages(n, self.page), row)
            for end in {row.protected, whole} if self.page > 1 else ():
                self.decline(row, end, self.rules.publish_pages)
            n = whole
            if row.protected > n:
                raise ProcessAborted(f"AssertionError: cache_protected_len={row.protected}, page_aligned_len={n}",
                                     "published-more")  # fmt: skip
            done = self._insert(row, n, state)
            self.decline(row, done.known, self.rules.live_from if done.known < row.evicted else None)
            row.inserted = max(row.inserted, n)
            node = self._held(row, done.node, finished)
            row.buffer[row.protected : node.end] = self.tree.slots(node)[row.protected :]
            self.tree.unlock(row.lock)
            row.lock, row.node, row.protected = self.tree.lock(node), node, node.end
        if branched:
            row.window_branch = None
            if not finished:
                self.release_frontier(row, self.rules.chunk_frontier, row.stop - self.pairs - 1)
        if STATE in self.parts:
            taken = done is not None and not done.exists
            if taken and finished:
                row.state = None if row.state == state else row.state
                row.track = row.track and [slot for slot in row.track if slot != state]
            self.settle(row, None if taken else state, finished)

    def _held(self, row: Row, inserted: Node, finished: bool) -> Node:
        """Return the node that a request holds after an insertion."""
        if finished or not self.rules.rematches:
            return inserted
        found = self.find(row, inserted.end + self.pairs)
        self.report()
        return found.node

    def decline(self, row: Row, n: int, rule: Callable[..., Any] | None) -> None:
        """Log that a rule made no restore point after the first ``n`` tokens of a request and one more."""
        if rule is not None and n < row.computed:
            self.emit(log_events.Declined(row.id, n + 1, rule_id(rule)))

    def _offer(self, row: Row, n: int, finished: bool) -> tuple[int, int | None]:
        """Return the number of tokens to insert, and the slot of the state for the tree."""
        rules, track = self.rules, row.track
        if STATE not in self.parts:
            return rules.insert_to_branch(n, row.window_branch, row.protected), None
        if finished:
            n = rules.give_at_end(n, row.tracked, row.tracked_before, self.buffered)
            last = n == (row.tracked or 0)
            return n, row.state if track is None else track[row.last_track if last else 1 - row.last_track]
        n = rules.give_at_chunk(n, row.tracked, self.buffered)
        if self.buffered and row.tracked is None:
            return 0, None
        slot = self.take_state()
        if track is None:
            self.states.content[slot] = self.states.content.get(row.state, {})
            return n, slot
        given, track[row.last_track] = track[row.last_track], slot
        return n, given

    def _insert(self, row: Row, n: int, state: int | None) -> Any:
        """Insert tokens; in a tree of full attention only, end a node where the prompt ends."""
        tokens, priority = self.key(row.all), int(row.task.request.extra.get("priority", 0))
        text = tuple(row.identities(0, len(row.all))) if row.key or self.pairs else tokens
        ask = Insertion(tokens, row.space, n, row.buffer[:n].copy(), row.protected, row.evicted, row.inserted, priority,
                        state, text, row is self.chunked)  # fmt: skip
        done = self.tree.insert(ask)
        self._inserted(ask, done)
        prompt = (row.prompt - self.pairs) // self.page * self.page
        if boundary := self.rules.prompt_boundary(prompt, n, len(self.parts)):
            ask.limit = ask.protected = ask.counted = boundary
            ask.chunk = True
            ask.priority += 1
            self._inserted(ask, self.tree.insert(ask))
        return done

    def _inserted(self, ask: Insertion, done: Any) -> None:
        exists = None if done.exists is None else int(done.exists)
        self.report(ev.Inserted(ask.limit, ask.protected, ask.frontier, done.known, exists))

    def settle(self, row: Row, state: int | None, finished: bool) -> None:
        """Free the states of a request; ``state``: one that the tree did not take, or None. A finished request keeps
        none."""
        for slot in (row.state, *(row.track or ())) if finished else (state,):
            if slot is not None:
                self.states.put_back(slot)
        if finished:
            row.state = row.track = None
        row.tracked = row.tracked_before = None

    def release(self, row: Row, keep: bool) -> None:
        """End a request's use of the memory. ``keep``: the tree takes over what it computed."""
        if not row.allocated:
            return self.settle(row, None, finished=True)
        own, n = row.computed, row.allocated
        if keep:
            stop = row.prompt + row.task.answer.predicted_n if row.over else own
            own = self.rules.owned_tokens(own, row.prompt, stop, row.protected, self.opts.strip_thinking_cache)
            keep = not self.drafted or self.rules.keeps_stopped(own, row.computed, self.buffered, self.parts)
        if keep:
            self.checkpoint(row, own, finished=True)
        for start, stop in ((row.protected, own), (-(-own // self.page) * self.page, n)):
            live = min(max(start, row.evicted), stop)
            self.kv.full.give_back(row.buffer[start:live])
            self.kv.free(row.buffer[live:stop])
        self.tree.unlock(row.lock)
        if not keep and STATE in self.parts:
            self.settle(row, None, finished=True)
        row.allocated = 0

    def leave(self, row: Row, why: str, keep: bool = True, cancelled: bool = False) -> None:
        """End a request. ``keep``: the tree takes over what it computed."""
        self.record_end(row, why, cancelled)
        try:
            self.release(row, keep)
        except ProcessAborted as end:               # before the server sends the last token
            row.task.answer.dies(end)
            raise
        for rows in (self.running, self.waiting):
            if row in rows:
                rows.remove(row)
        self.chunked, self.full = None if row is self.chunked else self.chunked, False
