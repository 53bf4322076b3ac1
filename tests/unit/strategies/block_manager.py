"""Block manager with the interface of nano-vllm's, for tests where nano-vllm is not installed.

Only names and behaviour are those of the original: full blocks are found by a hash of their tokens and of the blocks
before them, and a free block keeps its contents until it is taken.
"""

from __future__ import annotations

import hashlib
import sys
from collections import deque
from types import ModuleType


class Sequence:
    """Tokens with their blocks."""

    block_size = 256

    def __init__(self, token_ids):
        self.token_ids = list(token_ids)
        self.block_table = []
        self.num_cached_tokens = self.num_scheduled_tokens = 0

    def __len__(self):
        return len(self.token_ids)

    @property
    def num_blocks(self):
        return -(-len(self.token_ids) // self.block_size)

    def block(self, i):
        return self.token_ids[i * self.block_size : (i + 1) * self.block_size]


class Block:
    """Block with the number of sequences that have it, and what a full one is found by."""

    def __init__(self, block_id):
        self.block_id, self.ref_count, self.hash, self.token_ids = block_id, 0, -1, []


class BlockManager:
    """Manager of a pool of blocks."""

    def __init__(self, num_blocks, block_size):
        self.block_size = block_size
        self.blocks = [Block(i) for i in range(num_blocks)]
        self.free_block_ids = deque(range(num_blocks))
        self.by_hash = {}

    @classmethod
    def compute_hash(cls, token_ids, prefix=-1):
        return int.from_bytes(hashlib.sha256(repr((prefix, token_ids)).encode()).digest()[:8], "little")

    def _found(self, seq):
        """Return the blocks that hold the beginning of a sequence. The last block is always evaluated."""
        found, prefix = [], -1
        for i in range(seq.num_blocks - 1):
            prefix = self.compute_hash(seq.block(i), prefix)
            block = self.blocks[self.by_hash[prefix]] if prefix in self.by_hash else None
            if block is None or block.token_ids != seq.block(i):
                break
            found.append(block)
        return found

    def can_allocate(self, seq):
        found = self._found(seq)
        used = sum(block.ref_count > 0 for block in found)
        return len(found) if seq.num_blocks - used <= len(self.free_block_ids) else -1

    def allocate(self, seq, num_cached_blocks):
        for block in self._found(seq)[:num_cached_blocks]:
            if block.ref_count == 0:
                self.free_block_ids.remove(block.block_id)
            block.ref_count += 1
            seq.block_table.append(block.block_id)
        while len(seq.block_table) < seq.num_blocks:
            block = self.blocks[self.free_block_ids.popleft()]
            if self.by_hash.get(block.hash) == block.block_id:
                del self.by_hash[block.hash]
            block.ref_count, block.hash, block.token_ids = 1, -1, []
            seq.block_table.append(block.block_id)
        seq.num_cached_tokens = num_cached_blocks * self.block_size

    def deallocate(self, seq):
        for block_id in reversed(seq.block_table):
            self.blocks[block_id].ref_count -= 1
            if self.blocks[block_id].ref_count == 0:
                self.free_block_ids.append(block_id)
        seq.block_table.clear()

    def hash_blocks(self, seq):
        first = seq.num_cached_tokens // self.block_size
        last = (seq.num_cached_tokens + seq.num_scheduled_tokens) // self.block_size
        prefix = self.blocks[seq.block_table[first - 1]].hash if first else -1
        for i in range(first, last):
            block = self.blocks[seq.block_table[i]]
            prefix = block.hash = self.compute_hash(seq.block(i), prefix)
            block.token_ids = seq.block(i)
            self.by_hash[prefix] = block.block_id


def modules():
    """Return modules under the names of nano-vllm's, for ``sys.modules``."""
    names = ("nanovllm", "nanovllm.engine", "nanovllm.engine.block_manager", "nanovllm.engine.sequence")
    made = {name: ModuleType(name) for name in names}
    made["nanovllm.engine.block_manager"].BlockManager = BlockManager
    made["nanovllm.engine.sequence"].Sequence = Sequence
    return made


if __name__ == "__main__":
    sys.modules.update(modules())
