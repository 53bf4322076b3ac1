"""Stand-ins for adapters whose packages are not available: short arithmetic caches with equal faults.

They contain no code of a package. Each names its adapter; a finding in a stand-in only shows that the suite finds it.
"""

from __future__ import annotations

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance import PagedMemory

WINDOW = 4
MASK = (1 << 61) - 1


class Cache:
    """A digest per token: of the token, its position and the digests that it reads. Keeps ``window`` digests."""

    def __init__(self, window=None):
        self.window, self.digests, self.length = window, [], 0

    def feed(self, tokens, position=None):
        """Evaluate tokens; return the digest of the last."""
        for at, token in enumerate(tokens, self.length if position is None else position):
            read = self.digests if self.window is None else self.digests[-self.window:]
            digest = token + 1_000_003 * at
            for one in read:
                digest = (digest * 1_000_033 + one) & MASK
            self.digests.append(digest)
            self.length += 1
        return self.digests[-1]

    def copy(self):
        """Return an independent copy."""
        other = Cache(self.window)
        other.digests, other.length = list(self.digests), self.length
        return other


class Appends:
    """Stands for transformers_append: whole conversations, used if a prompt continues them."""

    def __init__(self):
        self.kept = {}

    def follow(self, cache, tokens):
        """Evaluate tokens after a cache; subclasses add the faults here."""
        return cache.feed(tokens)

    def complete(self, prompt, n_predict):
        """Generate."""
        held = max((key for key in self.kept if key == tuple(prompt[: len(key)]) and len(key) < len(prompt)),
                   key=len, default=())  # fmt: skip
        cache = self.kept[held].copy() if held else Cache()
        digests = [self.follow(cache, prompt[len(held):]) if held else cache.feed(prompt)]
        while len(digests) < n_predict:
            digests.append(cache.feed([digests[-1] % 400 + 3]))
        tokens = [digest % 400 + 3 for digest in digests]
        self.kept[(*prompt, *tokens[:-1])] = cache
        return {"tokens": tokens, "fingerprint": digests[0], "cached": len(held), "evaluated": len(prompt) - len(held)}


class Positions(Appends):
    """Stands for Bamba: positions start at 0 in every call with a cache."""

    def follow(self, cache, tokens):
        return cache.feed(tokens, position=0)


class ZeroState(Appends):
    """Stands for Mamba-1 mixers and RecurrentGemma's convolution: zeros if several tokens follow a cache."""

    def follow(self, cache, tokens):
        if len(tokens) > 1:
            cache.digests.clear()
        return cache.feed(tokens)


class Crops:
    """Stands for transformers_crop: a conversation whose window is cropped deeper than it has recorded."""

    def __init__(self, window=WINDOW):
        self.window, self.held, self.cache = window, (), Cache(window)

    def complete(self, prompt, n_predict):
        """Generate."""
        cached = min(common_prefix(self.held, tuple(prompt)), len(prompt) - 1)
        if not cached:
            self.cache = Cache(self.window)
        elif gone := len(self.held) - cached:
            del self.cache.digests[-gone:]
            self.cache.length = cached
            if self.window:
                del self.cache.digests[: -self.window]
        digests = [self.cache.feed(prompt[cached:])]
        while len(digests) < n_predict:
            digests.append(self.cache.feed([digests[-1] % 400 + 3]))
        tokens = [digest % 400 + 3 for digest in digests]
        self.held = (*prompt, *tokens[:-1])
        return {"tokens": tokens, "fingerprint": digests[0], "cached": cached, "evaluated": len(prompt) - cached}


class Pool:
    """Stands for mlx-omni-server: the state has seen a token more than the key, and the key is stored before the
    state."""

    def __init__(self):
        self.key, self.cache = (), Cache()

    def complete(self, prompt, n_predict, cancel_after=None):
        """Generate; all generated tokens are evaluated, but the last is missing from the key."""
        cached = len(self.key) if self.key == tuple(prompt[: len(self.key)]) and len(self.key) < len(prompt) else 0
        if not cached:
            self.cache = Cache()
        self.key = tuple(prompt)
        if cancel_after == 0:
            return {}
        digests = [self.cache.feed(prompt[cached:])]
        for _ in range(n_predict):
            digests.append(self.cache.feed([digests[-1] % 400 + 3]))
        tokens = [digest % 400 + 3 for digest in digests[:-1]]
        self.key = (*prompt, *tokens[:-1])
        return {"tokens": tokens, "fingerprint": digests[0], "cached": cached, "evaluated": len(prompt) - cached,
                "stored": [{"tokens": self.key, "length": self.cache.length}]}  # fmt: skip


class Blocks:
    """Stands for vllm_blocks: full blocks, identified by their content and that of all blocks before. ``early``: a
    block is handed out again while its key still exists."""

    def __init__(self, early=False, size=4, count=10):
        self.early, self.size, self.memory = early, size, PagedMemory(size)
        self.free, self.keys = list(range(count)), {}            # block -> its key

    def complete(self, prompt, n_predict):
        """Evaluate the prompt after the stored blocks; the answer repeats a single token."""
        known, table = {key: block for block, key in self.keys.items()}, []
        for stop in range(self.size, len(prompt), self.size):
            if tuple(prompt[:stop]) not in known:
                break
            table.append(known[tuple(prompt[:stop])])
        cached = len(table) * self.size
        self.free = [block for block in self.free if block not in table]
        while len(table) * self.size < len(prompt):
            table.append(self.free.pop(0))
            if not self.early:
                self.keys.pop(table[-1], None)
        digest = self.memory.evaluate(table, cached, prompt[cached:])
        for stop in range(self.size, len(prompt) + 1, self.size):
            self.keys.setdefault(table[stop // self.size - 1], tuple(prompt[:stop]))
        self.free += table
        return {"tokens": [digest % 400 + 3] * n_predict, "fingerprint": digest, "cached": cached,
                "evaluated": len(prompt) - cached}  # fmt: skip
