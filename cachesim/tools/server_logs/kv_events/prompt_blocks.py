"""Blocks in the prompts of request bodies: which prompts of token ids begin with the tokens of a block and of those
before it.

A prefix of whole blocks has a key: the digest of the key of the prefix before its last block, and the tokens of that
block. Events and prompts that have a prefix in common have its key in common.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.tools.server_logs.kv_events.block_history import Place

MOST_PREFIXES = 1 << 18             # keys of all prompts; the oldest prompts are forgotten first
MOST_TOKENS = 1 << 22               # tokens of all prompts that are added, and ``OF_A_PROMPT`` for each of them
OF_A_PROMPT = 16
KEY_BYTES = 16
Bodies = frozenset[int]
EMPTY = b""
"""Key of the prefix without tokens."""


class StoredPrefix(NamedTuple):
    """A block of a store: the key of the prefix that it ends, and the size of its blocks [tokens]."""

    key: bytes
    size: int


class PromptBlocks:
    """The prompts, by the number of their body, and for each block of the events the prefix that it ends. ``most``:
    blocks that are kept, None = all; the oldest are forgotten first, as are the oldest prompts beyond ``most_prefixes``
    and ``most_tokens``."""

    def __init__(
        self,
        prompts: Mapping[int, Sequence[int]],
        most: int | None = None,
        most_prefixes: int = MOST_PREFIXES,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        self.prompts = dict(prompts)
        self.most = most
        self.forgotten = 0              # prompts
        self._joined = set[int]()       # bodies that are not forgotten, whose prompts have a block of the events
        self._joined_before = 0         # forgotten ones
        self._room = most_prefixes
        self._most_tokens = most_tokens
        self._tokens = 0                # of the prompts that were added
        self._of_prefix: dict[int, dict[bytes, set[int]]] = {}          # size -> key -> numbers of bodies
        self._of_block: dict[tuple[Place, Any], StoredPrefix] = {}

    @property
    def joined(self) -> int:
        """Number of bodies whose prompts have a block of the events."""
        return self._joined_before + len(self._joined)

    def add(self, number: int, prompt: Sequence[int]) -> bool:
        """Add a prompt. Later events name its body. Return False for numbers that no tokenizer has."""
        try:
            prompt = array("q", prompt)
        except OverflowError:
            return False
        self.prompts[number] = prompt
        self._tokens += len(prompt) + OF_A_PROMPT
        while self._tokens > self._most_tokens and len(self.prompts) > 1:
            self._forget(next(iter(self.prompts)))
        for size in self._of_prefix:
            self._index(number, prompt, size)
        return True

    def of_event(self, place: Place, event: Mapping[str, Any]) -> list[Bodies | None]:
        """Return for each hash of a store the bodies whose prompts have the block; None = not known: the event leaves
        out blocks, or the block before it is not known."""
        hashes = event["block_hashes"]
        size = event["block_size"]
        tokens = event["token_ids"]
        parent = event.get("parent_block_hash")
        before = StoredPrefix(EMPTY, size) if parent is None else self._of_block.get((place, parent))
        if before is None or before.size != size or len(tokens) != size * len(hashes):
            return [None] * len(hashes)
        key = before.key
        found = list[Bodies | None]()
        for at, digest in enumerate(hashes):
            key = _key(key, tokens[at * size : (at + 1) * size])
            self._of_block.pop((place, digest), None)
            self._of_block[place, digest] = StoredPrefix(key, size)
            found.append(self._bodies(key, size))
        while self.most is not None and len(self._of_block) > self.most:
            del self._of_block[next(iter(self._of_block))]
        return found

    def _bodies(self, key: bytes, size: int) -> Bodies | None:
        """Return the bodies with a prefix, None if they are not known: there are no bodies, or none of those that are
        left has the prefix."""
        if not self.prompts:
            return None
        if size not in self._of_prefix:
            self._of_prefix[size] = {}
            for number, prompt in list(self.prompts.items()):
                self._index(number, prompt, size)
        found = frozenset(self._of_prefix[size].get(key, ()))
        self._joined |= found
        return found if found or not self.forgotten else None

    def _index(self, number: int, prompt: Sequence[int], size: int) -> None:
        """Add the prefixes of a prompt in blocks of this size."""
        for key in _keys(prompt, size):
            self._of_prefix[size].setdefault(key, set()).add(number)
            self._room -= 1
        while self._room < 0 and len(self.prompts) > 1:
            self._forget(next(iter(self.prompts)))

    def _forget(self, number: int) -> None:
        """Remove a prompt."""
        prompt = self.prompts.pop(number)
        self.forgotten += 1
        self._tokens -= len(prompt) + OF_A_PROMPT
        self._joined_before += number in self._joined
        self._joined.discard(number)
        for size, prefixes in self._of_prefix.items():
            for key in _keys(prompt, size):
                numbers = prefixes.get(key, set())
                self._room += number in numbers
                numbers.discard(number)
                if not numbers:
                    prefixes.pop(key, None)


def _keys(prompt: Sequence[int], size: int) -> Iterator[bytes]:
    """Yield the keys of the prefixes of a prompt in whole blocks of this size, the shortest first."""
    key = EMPTY
    for end in range(size, len(prompt) + 1, size):
        key = _key(key, list(prompt[end - size : end]))
        yield key


def _key(before: bytes, tokens: Sequence[Any]) -> bytes:
    """Return the key of a prefix and the block after it."""
    return blake2b(before + repr(tokens).encode(), digest_size=KEY_BYTES).digest()
