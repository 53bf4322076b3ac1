"""Invariants of caches, as base classes of a ``CacheMachine``. Each runs after every operation."""

from __future__ import annotations

from collections import Counter

from cachesim.base.tokens import common_prefix
from cachesim.strategies.cache_machine import CacheMachine, must_have
from cachesim.strategies.drawn_values import text_of


class CachedEqualsCold(CacheMachine):
    """The contents of every sequence are those of a new cache that has evaluated only its tokens. Needs ``read``."""

    def check_cached_equals_cold(self) -> None:
        """Raise CacheFault for the first sequence whose contents differ from a cold run's."""
        must_have(self, "read")
        for one in self.held:
            if self.driver.read(one.handle) != self.cold(one.tokens):
                raise self.fault(f"sequence {one.number}, {text_of(one.tokens)}, differs from a cold run")


class NeverNegativeReuse(CacheMachine):
    """The cache reuses at least 0 tokens, and at most as many as the prompt shares with a prompt that it has seen."""

    def check_never_negative_reuse(self) -> None:
        """Raise CacheFault for a reported reuse that is negative or longer than any shared beginning."""
        if self.reuse is None:
            return
        tokens, cached, seen = self.reuse
        most = max((common_prefix(tokens, one) for one in seen), default=0)
        if not 0 <= cached <= most:
            raise self.fault(f"{cached} tokens of {text_of(tokens)} reused, expected 0 to {most}")


class ReferenceCounts(CacheMachine):
    """The reference count of a block is the number of sequences that have it. Needs ``blocks`` and
    ``reference_counts``."""

    def check_reference_counts(self) -> None:
        """Raise CacheFault for the first block with another count."""
        must_have(self, "blocks")
        must_have(self, "reference_counts")
        wanted = Counter(block for one in self.held for block in self.driver.blocks(one.handle))
        counts = {block: count for block, count in self.driver.reference_counts().items() if count}
        for block in sorted({*wanted, *counts}, key=str):
            if counts.get(block, 0) != wanted[block]:
                raise self.fault(f"block {block} has {counts.get(block, 0)} references, {wanted[block]} sequences have "
                                 f"it")  # fmt: skip


class BlocksInOnePlace(CacheMachine):
    """A block is free or belongs to sequences, and stands once in the list of free blocks and in a sequence. Needs
    ``blocks`` and ``free_blocks``."""

    def check_blocks_in_one_place(self) -> None:
        """Raise CacheFault for the first block in two places."""
        must_have(self, "blocks")
        must_have(self, "free_blocks")
        places = Counter(self.driver.free_blocks())
        twice = [block for block, count in places.items() if count > 1]
        if twice:
            raise self.fault(f"block {twice[0]} is twice in the list of free blocks")
        for one in self.held:
            for block, count in Counter(self.driver.blocks(one.handle)).items():
                if block in places:
                    raise self.fault(f"block {block} is free and in sequence {one.number}")
                if count > 1:
                    raise self.fault(f"block {block} is twice in sequence {one.number}")


class KeyCoversContent(CacheMachine):
    """A stored entry has seen the tokens of its key, no more and no fewer. Needs ``entries`` and ``read``."""

    def check_key_covers_content(self) -> None:
        """Raise CacheFault for the first entry whose contents are not those of a cold run of its key."""
        must_have(self, "entries")
        must_have(self, "read")
        for key, contents in self.driver.entries():
            if contents != self.cold(tuple(key)):
                raise self.fault(f"the entry with the key {text_of(key)} has other contents than a cold run of it")
