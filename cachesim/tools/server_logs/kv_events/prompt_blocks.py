"""Blocks in the prompts of request bodies: which prompts of token ids begin with the tokens of a block and of those
before it."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.tools.server_logs.kv_events.block_history import Place

MOST_COMPARISONS = 20_000_000       # tokens of prompts that are compared; later blocks belong to no known request
Bodies = frozenset[int]


class PromptBlocks:
    """The prompts, by the number of their body, and for each block the bodies whose prompts have it, with the end of
    the block [tokens]."""

    def __init__(self, prompts: Mapping[int, Sequence[int]]) -> None:
        self.prompts = prompts
        self.left = MOST_COMPARISONS
        self.known: dict[tuple[Place, Any], tuple[Bodies, int]] = {}

    def of_event(self, place: Place, event: Mapping[str, Any]) -> list[Bodies | None]:
        """Return for each hash of a store the bodies whose prompts have the block; None = not known: the event leaves
        out blocks, or the block before it is not known."""
        hashes = event["block_hashes"]
        size = event["block_size"]
        tokens = event["token_ids"]
        parent = event.get("parent_block_hash")
        before = (frozenset(self.prompts), 0) if parent is None else self.known.get((place, parent))
        if not self.prompts or before is None or len(tokens) != size * len(hashes):
            return [None] * len(hashes)
        bodies, end = before
        found = list[Bodies | None]()
        for at, digest in enumerate(hashes):
            self.left -= size * len(bodies)
            if self.left < 0:
                found.append(None)
                continue
            block = tokens[at * size : (at + 1) * size]
            bodies = frozenset(one for one in bodies if list(self.prompts[one][end : end + size]) == block)
            end += size
            self.known[place, digest] = (bodies, end)
            found.append(bodies)
        return found
