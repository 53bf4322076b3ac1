"""Radix tree of the prompts that were sent to each replica. A router keeps it beside the servers; it does not know what
their caches still hold.

Source: sglang_router 0.3.2 sgl-model-gateway/src/policies/tree.rs insert, prefix_match_with_counts.
"""

from __future__ import annotations

from typing import NamedTuple

from cachesim.base.tokens import Tokens, common_prefix

NOBODY = -1


class RoutedPrefix(NamedTuple):
    """Longest common prefix with earlier prompts [tokens], and the replica that is named there; ``NOBODY`` without
    one."""

    tokens: int
    replica: int


class PrefixNode:
    """Tokens of an edge, and the replica whose prompt created it. A split leaves both parts with the creator; a prompt
    that passes later changes nothing."""

    __slots__ = ("children", "creator", "tokens")

    def __init__(self, tokens: Tokens, creator: int) -> None:
        self.tokens = tokens
        self.creator = creator
        self.children: dict[int, PrefixNode] = {}


class PrefixTree:
    """Prompts by their common beginnings. Evictions are not simulated: the real tree drops the least recently used
    prompts of a worker above 2^26 characters, once a minute."""

    def __init__(self) -> None:
        self.root = PrefixNode((), NOBODY)

    def match(self, prompt: Tokens) -> RoutedPrefix:
        """Return the longest common prefix with the prompts so far. A part of an edge counts, too."""
        node = self.root
        at = 0
        while at < len(prompt):
            child = node.children.get(prompt[at])
            if child is None:
                break
            shared = common_prefix(child.tokens, prompt[at : at + len(child.tokens)])
            node = child
            at += shared
            if shared < len(child.tokens):
                break
        return RoutedPrefix(at, node.creator)

    def insert(self, prompt: Tokens, replica: int) -> None:
        """Record that a prompt was sent to a replica."""
        node = self.root
        at = 0
        while at < len(prompt):
            child = node.children.get(prompt[at])
            if child is None:
                node.children[prompt[at]] = PrefixNode(prompt[at:], replica)
                return
            shared = common_prefix(child.tokens, prompt[at : at + len(child.tokens)])
            if shared < len(child.tokens):
                child = _split(node, child, shared)
            node = child
            at += shared


def _split(parent: PrefixNode, child: PrefixNode, at: int) -> PrefixNode:
    """Divide an edge after ``at`` tokens; return the node of its first part."""
    first = PrefixNode(child.tokens[:at], child.creator)
    parent.children[first.tokens[0]] = first
    child.tokens = child.tokens[at:]
    first.children[child.tokens[0]] = child
    return first
