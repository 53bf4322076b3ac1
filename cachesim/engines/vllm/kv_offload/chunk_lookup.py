"""Lookup of the chunks of a prompt in CPU memory, in all groups of layers.

Groups with full attention need all chunks from the first one on, windows and states those before the end alone. Each
group may shorten the prefix of the others. Source: vLLM
vllm/distributed/kv_transfer/kv_connector/v1/offloading/scheduler.py _lookup_complete_chunks (0.33.0).
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

from cachesim.engines.vllm.kv_offload.cpu_manager import MISS, PENDING, Key


class OffloadedGroup(NamedTuple):
    """A group of layers: tokens of a block and of a chunk; ``window_chunks``: chunks before the end that a request
    needs, 0 = all; ``window``: tokens of a sliding window, 0 = it has none; ``is_state``: the group keeps states;
    ``is_eagle``: the drafter's layers are in it, and a lookup drops a chunk."""

    tokens_per_block: int
    tokens_per_chunk: int
    window_chunks: int = 0
    window: int = 0
    is_state: bool = False
    is_eagle: bool = False

    def load_window(self, num_tokens: int) -> int:
        """Return the chunks before the end that a load of so many tokens needs, 0 = all."""
        if not self.window:
            return self.window_chunks
        padding = -num_tokens % self.tokens_per_chunk
        return max(self.window_chunks, -(-(self.window - 1 + padding) // self.tokens_per_chunk))


class ChunkQuery(NamedTuple):
    """A lookup of a prompt: ``keys`` of its chunks by group, tokens that the pool has, and tokens in all."""

    keys: Sequence[Sequence[Key]]
    local: int
    end: int


class Search:
    """The state of a lookup: ``end``: end of the prefix that is possible still; ``found``: tokens that the last group
    left behind those of the pool; ``waits``: a chunk of it is being written; ``verified``: groups whose dropped chunk
    was there."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.found = 0
        self.waits = False
        self.verified: set[int] = set()


class ChunkLookup:
    """Lookups in these groups. ``state_of``: tells whether CPU memory has a chunk; ``load_end``: returns the end of a
    load, from the end that other groups leave and the tokens of a chunk of states."""

    def __init__(self, groups: Sequence[OffloadedGroup], state_of: Callable[[Key], str],
                 load_end: Callable[[int, int], int]) -> None:
        self.groups = groups
        self.state_of = state_of
        self.load_end = load_end
        windows = [at for at, group in enumerate(groups) if group.window_chunks]
        self.windows = sorted(windows, key=lambda at: groups[at].window_chunks, reverse=True)
        self.order = [*(at for at, group in enumerate(groups) if not group.window_chunks), *self.windows]
        self.state_chunk = next((group.tokens_per_chunk for group in groups if group.is_state), 0)

    def find(self, query: ChunkQuery) -> int | None:
        """Return the tokens behind those of the pool that can be loaded, None = the request waits."""
        search = Search(self._first_end(query.end))
        todo: Sequence[int] = self.order
        while todo:
            found = self._round(query, search, todo)
            if found is None:
                return 0
            todo = found
        return None if search.waits else search.found

    def _first_end(self, end: int) -> int:
        """Return the end of the longest prefix that may be found: with windows, a token is left."""
        if self.windows:
            end -= 1
            end -= end % self.state_chunk if self.state_chunk else 0
        return end

    def _round(self, query: ChunkQuery, search: Search, todo: Sequence[int]) -> Sequence[int] | None:
        """Look groups up in turn; return those that must be looked up again, None = less than a chunk is found."""
        again: Sequence[int] = ()
        looked_at_window = False
        for at in todo:
            group = self.groups[at]
            if not self._look_up(query, search, at):
                return None
            found = search.end - query.local
            if found < group.tokens_per_chunk:
                return None
            if found < search.found:
                if not group.is_eagle:
                    search.verified.clear()
                if search.waits:
                    search.waits = False
                    again = self.order
                elif looked_at_window and not again:
                    again = self.windows
            looked_at_window |= group.window_chunks > 0
            search.found = found
        return again

    def _look_up(self, query: ChunkQuery, search: Search, at: int) -> bool:
        """Look a group up and shorten the prefix; return False if the group has none of it."""
        group = self.groups[at]
        keys = query.keys[at]
        size = group.tokens_per_chunk
        search.end = min(search.end, len(keys) * size)
        if group.is_state:
            search.end = self.load_end(search.end, size)
        if search.end - query.local < size:
            return False
        drops = group.is_eagle and at not in search.verified
        most = min(search.end + size, len(keys) * size) if drops else search.end
        last = min(-(-most // size), len(keys))
        first = query.local // size
        if group.window_chunks:
            end = min(search.end, (last - drops) * size)
            found = self._last_window(keys[first:last], group.window_chunks + drops, group.load_window(end) + drops)
        else:
            found = self._prefix(keys[first:last])
        if found == 0:
            return False
        if found is None:
            search.waits = True
            return True
        if drops:
            search.verified.add(at)
        search.end = min(search.end, size * (first + found - drops))
        return True

    def _prefix(self, keys: Sequence[Key]) -> int | None:
        """Return how many chunks from the first one on are there, None = one of them is being written."""
        states = [self.state_of(key) for key in keys]
        n = next((at for at, state in enumerate(states) if state == MISS), len(states))
        return None if PENDING in states[:n] else n

    def _last_window(self, keys: Sequence[Key], window: int, first_window: int) -> int | None:
        """Return the end of the last run of ``window`` chunks that are there, or of those at the start; None = one of
        them is being written. ``first_window``: chunks of a run that no missing chunk follows."""
        needed = first_window
        run = 0
        waits = False
        for at in range(len(keys) - 1, -1, -1):
            state = self.state_of(keys[at])
            if state == MISS:
                run = 0
                waits = False
                needed = window
            else:
                waits |= state == PENDING
                run += 1
            if run == needed:
                return None if waits else at + run
        return None if waits else run
