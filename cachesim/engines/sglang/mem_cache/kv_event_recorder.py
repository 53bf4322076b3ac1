"""KV events of the radix tree as other programs receive them, with the hashes of the release.

Source: sgl-project/sglang python/sglang/srt/mem_cache/events.py KVCacheEventRecorder, mem_cache/utils.py,
mem_cache/cpp_utils/hash_binding.cpp (0.5.23).
"""

from __future__ import annotations

import hashlib
from itertools import takewhile
from struct import pack
from typing import Any, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode

GPU = "GPU"
SALT_TAG = b"sglang-cache-salt-v1\0"
WIDE = b"\xff"                      # before the tokens of a page that have 64 bits
STORED, REMOVED, CLEARED = "BlockStored", "BlockRemoved", "AllBlocksCleared"
TAIL = ("medium", "lora_id", "block_size", "cache_salt")
"""Fields in which two stores agree that become one event."""

Event = dict[str, Any]


def page_digest(page: Sequence[Any], prior: bytes) -> bytes:
    """Return the digest of a page behind the digest of the pages before it, b"" = none. A token has 32 bits, or 64 if
    one of the page needs them; a pair of tokens has both."""
    tokens = [token for pair in page for token in pair] if isinstance(page[0], tuple) else page
    if max(tokens) < 1 << 32:
        return hashlib.sha256(prior + pack(f"<{len(tokens)}I", *tokens)).digest()
    return hashlib.sha256(prior + WIDE + pack(f"<{len(tokens)}Q", *tokens)).digest()


def first_digest(cache_salt: str) -> bytes:
    """Return the digest before the first page: that of the salt, b"" without one."""
    return hashlib.sha256(SALT_TAG + cache_salt.encode()).digest() if cache_salt else b""


def event_hash(digest: bytes) -> int:
    """Return a digest as events have it: its first 64 bits as a signed number."""
    return int.from_bytes(digest[:8], "big", signed=True)


class KVCacheEventRecorder:
    """Events of a tree that are not published yet. ``digests``: of the pages of each node, by its id."""

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.digests: dict[int, list[bytes]] = {}
        self.events: list[Event] = []

    def record_store(self, node: UnifiedTreeNode, medium: str = GPU) -> None:
        """Queue that the pages of a node were stored."""
        parent = self._parent_hash(node)
        salt = _salt_of(node)
        more = {"cache_salt": salt} if salt else {}
        for page, digest in zip(self._pages(node), self._digests_of(node), strict=True):
            block_hash = event_hash(digest)
            self._enqueue_store({
                "type": STORED,
                "block_hashes": [block_hash],
                "parent_block_hash": parent,
                "token_ids": [list(token) if isinstance(token, tuple) else token for token in page],
                "block_size": len(page),
                "lora_id": None,
                "medium": medium,
                **more,
            })  # fmt: skip
            parent = block_hash

    def record_remove(self, node: UnifiedTreeNode, medium: str = GPU) -> None:
        """Queue that the pages of a node were removed."""
        hashes = [event_hash(digest) for digest in self._digests_of(node)]
        tail = self.events[-1] if self.events else {}
        if tail.get("type") == REMOVED and tail["medium"] == medium:
            tail["block_hashes"] += hashes
        else:
            self.events.append({"type": REMOVED, "block_hashes": hashes, "medium": medium})

    def record_all_cleared(self) -> None:
        """Queue that the tree was emptied."""
        self.events.append({"type": CLEARED})

    def record_split(self, upper: UnifiedTreeNode, child: UnifiedTreeNode) -> None:
        """Note that the first pages of a node became a node of their own."""
        digests = self.digests.pop(child.id, None)
        if digests is not None:
            pages = len(upper.key) // self.page_size
            self.digests[upper.id] = digests[:pages]
            self.digests[child.id] = digests[pages:]

    def forget(self, node: UnifiedTreeNode) -> None:
        """Note that a node left the tree."""
        self.digests.pop(node.id, None)

    def take(self) -> list[Event]:
        """Return the queued events, and forget them."""
        taken = self.events
        self.events = []
        return taken

    def _enqueue_store(self, event: Event) -> None:
        """Queue a store, as a part of the last event if it continues it."""
        tail = self.events[-1] if self.events else {}
        continues = (tail.get("type") == STORED and event["parent_block_hash"] == tail["block_hashes"][-1]
                     and all(tail.get(name) == event.get(name) for name in TAIL))  # fmt: skip
        if continues:
            tail["block_hashes"] += event["block_hashes"]
            tail["token_ids"] += event["token_ids"]
        else:
            self.events.append(event)

    def _pages(self, node: UnifiedTreeNode) -> list[Tokens]:
        return [node.key[at : at + self.page_size] for at in range(0, len(node.key), self.page_size)]

    def _digests_of(self, node: UnifiedTreeNode) -> list[bytes]:
        """Return the digests of the pages of a node."""
        missing = [*takewhile(lambda one: one.id not in self.digests, node.path())]
        for one in reversed(missing):
            self.digests[one.id] = self._computed_digests(one)
        return self.digests[node.id]

    def _computed_digests(self, node: UnifiedTreeNode) -> list[bytes]:
        assert node.parent is not None
        is_first = node.parent.parent is None
        digest = first_digest(_salt_of(node)) if is_first else self.digests[node.parent.id][-1]
        found = list[bytes]()
        for page in self._pages(node):
            digest = page_digest(page, digest)
            found.append(digest)
        return found

    def _parent_hash(self, node: UnifiedTreeNode) -> int | None:
        """Return the hash of the last page before a node, None if it is the first one."""
        parent = node.parent
        if parent is None or parent.parent is None:
            return None
        return event_hash(self._digests_of(parent)[-1])


def _salt_of(node: UnifiedTreeNode) -> str:
    """Return the salt of the conversation of a node, "" = none."""
    _, cache_salt = node.extra_key or ("", "")
    return str(cache_salt)
