"""Parameters and results of the operations of a prefix cache.

Source: sgl-project/sglang python/sglang/srt/mem_cache/base_prefix_cache.py (0.5.23).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.sglang.mem_cache.allocator import Slots
from cachesim.engines.sglang.mem_cache.unified_cache.unified_tree_node import UnifiedTreeNode
from cachesim.engines.sglang.rules.tree import PrefixMatch


class TreeLock(NamedTuple):
    """A lock on a node and the path before it; ``window_lock_uuid``: boundary of its window, None = the root;
    ``holds_state``: it locks the state of the node, too."""

    node: UnifiedTreeNode
    window_lock_uuid: int | None
    holds_state: bool = True


class HostLock(NamedTuple):
    """A lock on the copies in host memory that a match at a node needs. ``uuids``: boundaries by part."""

    node: UnifiedTreeNode
    uuids: tuple[int | None, ...]


class MatchResult(NamedTuple):
    """Result of a match."""

    found: PrefixMatch                            # numbers of tokens
    last_device_node: UnifiedTreeNode       # end of the hit on the device
    best_match_node: UnifiedTreeNode        # end of the hit with copies in host memory
    host_hit_length: int = 0                # tokens with copies between both
    swa_host_hit_length: int = 0            # tokens of its window that are in host memory only
    mamba_host_hit_length: int = 0          # states at its end that are in host memory only
    mamba_branching_seqlen: int | None = None       # where a state would have given a longer hit
    swa_branching_seqlen: int | None = None         # where a window would have given a longer hit


@dataclass(slots=True)
class InsertParams:
    """Tokens of a request, with their slots, that the tree takes over."""

    key: Tokens
    extra_key: Any                  # name space
    limit: int                      # tokens of the key to insert
    value: Slots                    # slots of these tokens, as a view: what stays is copied
    text: Tokens                    # the tokens with what they are computed under
    prev_prefix_len: int = 0        # tokens that belong to the tree already
    swa_evicted_seqlen: int = 0     # tokens at the beginning without window slots
    inserted_len: int = 0           # tokens that the same request inserted before
    priority: int = 0
    mamba_value: int | None = None  # slot of the state after the last token
    chunked: bool = False           # the request evaluates further chunks
    held: Sequence[UnifiedTreeNode] = ()        # the locked path of the request, which begins the key


class InsertResult(NamedTuple):
    """Result of an insertion."""

    last_device_node: UnifiedTreeNode   # where it ends
    prefix_len: int                     # tokens that were there before
    mamba_exist: bool | None            # the end had a state, None = the tree has no states


class EvictParams(NamedTuple):
    """Numbers of slots that an allocation lacks, by part."""

    num_tokens: int = 0
    swa_num_tokens: int = 0
    mamba_num: int = 0
