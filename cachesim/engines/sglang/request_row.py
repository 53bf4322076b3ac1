"""Request in progress: its tokens, its row of slots, its lock on the tree, its states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cachesim.engines.sglang.mem_cache.allocator import NO_SLOTS, Slots
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_core import Lock
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import Node
from cachesim.engines.shared.kv_rows import extend_array, grown_size
from cachesim.engines.shared.request_queue import RequestRow


@dataclass(slots=True, eq=False)
class Row(RequestRow):
    """A request. Its tokens up to ``protected`` belong to the tree."""

    space: Any = None                       # name space of its prefixes
    buffer: Slots = field(default_factory=lambda: NO_SLOTS)     # its slots, ``allocated`` of them in use
    allocated: int = 0
    prefix: int = 0                         # tokens before its next chunk
    stop: int = 0                           # end of its next chunk
    node: Node | None = None                # where its last match ended
    matched: int = 0                        # tokens of that match, with those that are in host memory only
    lock: Lock | None = None
    protected: int = 0
    inserted: int = 0                       # tokens that it has inserted
    evicted: int = 0                        # tokens before this have no window slots of its own
    state: int | None = None                # slot of its running state
    copied: int | None = None               # slot of the state that its running state is copied from
    track: list[int] | None = None          # slots of tracked states
    last_track: int = 1                     # place in ``track`` of the last one
    tracked: int | None = None              # length of the last tracked state
    tracked_before: int | None = None       # length of the other one
    branch: int | None = None               # where a state would have given a longer hit
    window_branch: int | None = None
    mark: int | None = None                 # length of the state to track in its decode step
    steps: int = 0                          # decode steps since it started
    over: bool = False                      # its answer is complete

    def append(self, slots: Slots) -> None:
        """Add slots to the row."""
        n = self.allocated + len(slots)
        if n > len(self.buffer):
            self.buffer = extend_array(self.buffer, grown_size(len(self.buffer), n))
        self.buffer[self.allocated : n] = slots
        self.allocated = n

    def restart(self) -> None:
        """Begin again after a retraction, with the answer so far as part of the prompt."""
        self.allocated = self.computed = self.prefix = self.protected = self.inserted = self.evicted = self.steps = 0
        self.node = self.lock = self.state = self.copied = self.track = None
        self.tracked = self.tracked_before = self.branch = self.window_branch = None
