"""SGLang 0.5.23: RadixCache, with the steps of its scheduler: match, lock, evict, allocate, insert, free, unlock.

    python -m tests.adapters.sglang_radix 4

The argument is the page size. ``tests.peers.sglang_source`` imports the package without torch and kernels.
"""

from __future__ import annotations

import sys
import sysconfig
from array import array

from cachesim.tools.conformance import PagedMemory, conform
from tests.peers.sglang_slots import Allocator, tensor
from tests.peers.sglang_source import REAL, TREE, load

REAL.add(f"{TREE}.cache_init_params")
load(sysconfig.get_path("purelib"))

from sglang.srt.mem_cache.base_prefix_cache import InsertParams, MatchPrefixParams  # noqa: E402
from sglang.srt.mem_cache.radix_cache import RadixCache, RadixKey  # noqa: E402

SLOTS = 52                 # few: leaves are evicted


class Tree:
    """The tree of a server, and the content that the model would write into the K/V slot of each token."""

    def __init__(self, page):
        self.slots, self.memory = Allocator(SLOTS, page), PagedMemory(block_size=1)
        self.tree = RadixCache.create_simulated(mock_allocator=self.slots, page_size=page)

    def complete(self, prompt, n_predict, cache=True):
        """Evaluate the prompt; the fingerprint is the digest of the slots that were read for its last token."""
        key = RadixKey(array("q", prompt[:-1] if cache else []))            # one token is always evaluated
        node = self.tree.match_prefix(MatchPrefixParams(key)).last_device_node
        self.tree.inc_lock_ref(node)
        table = [int(slot) for slot in self.tree.path_device_indices(node)]
        cached, tokens, new, digests = len(table), [], prompt[len(table):], []
        while len(tokens) < n_predict:
            self.slots.evict_to_free_tokens(self.tree, len(new) + self.slots.page_size)
            table += map(int, self.slots.take(len(new), table[-1] if table else 0, len(table)))
            digests.append(self.memory.evaluate(table, len(table) - len(new), new))
            tokens.append(digests[-1] % 29_000 + 1_000)
            new = tokens[-1:]
        whole = len(table) // self.slots.page_size * self.slots.page_size       # whole pages go to the tree
        key = RadixKey(array("q", [*prompt, *tokens[:-1]]))
        known = self.tree.insert(InsertParams(key, tensor(table[:whole]))).prefix_len
        self.slots.free_segments([(table[cached:known], cached), (table[whole:], whole)])
        self.tree.dec_lock_ref(node)
        return {"tokens": tokens, "fingerprint": digests[0], "cached": cached, "evaluated": len(prompt) - cached}


if __name__ == "__main__":
    page = int(sys.argv[1])
    report = conform(lambda: Tree(page), max_examples=100, max_prompt=40, near=[page], check=False)
    print(report)
    sys.exit(not report.conforms)
