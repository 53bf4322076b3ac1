"""Small caches whose key lacks something, each with its repaired twin, one for each kind of wrong key in reports.

    python -m tests.conformance.wrong_keys                      list the kinds
    python -m tests.conformance.wrong_keys image [repaired]     print the report of the suite for a kind
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Callable, NamedTuple
from zlib import crc32

from cachesim.base.tokens import common_prefix
from cachesim.tools.conformance import Toy, conform


def read_under(tokens, key, start):
    """Return the tokens as the model reads them: those from ``start`` on depend on the key."""
    shift = 50_000 * (1 + crc32(key.encode()) % 9_973) if key else 0
    return tuple(token + shift * (number >= start) for number, token in enumerate(tokens))


def nothing(key):
    return ""


def name(key):
    return key.partition(",")[0]


def whole(key):
    return key


class Blocks:
    """Keeps blocks of tokens under a key of all tokens so far. ``part``: what of a request's key enters it."""

    def __init__(self, part, size=1):
        self.part, self.size, self.toy, self.blocks = part, size, Toy("A"), {}

    def read(self, prompt, key, start):
        return read_under(prompt, key, start)

    def complete(self, prompt, n_predict, key="", key_start=0):
        """Continue from the longest stored prefix, and store every full block."""
        own, named = self.read(prompt, key, key_start), read_under(prompt, self.part(key), key_start)
        memory, cached = self.toy.empty, 0
        while cached + self.size < len(prompt) and named[: cached + self.size] in self.blocks:
            cached += self.size
            memory = self.blocks[named[:cached]]
        for at in range(cached, len(prompt), self.size):
            memory, said = self.toy.feed(memory, own[at : at + self.size])
            if at + self.size <= len(prompt):
                self.blocks.setdefault(named[: at + self.size], memory)
        return {"tokens": [said.token] * n_predict, "fingerprint": said.digest, "cached": cached,
                "evaluated": len(prompt) - cached}  # fmt: skip


class Regions:
    """Keeps prompts beside the image of each, and compares the images of two prompts. ``part`` of ``nothing``: only if
    both have one."""

    def __init__(self, part):
        self.strict, self.toy, self.entries = part is whole, Toy("A"), []

    def usable(self, entry, prompt, image):
        """Return the number of tokens to continue from, at least one less than the prompt."""
        tokens, other, _ = entry
        shared = min(common_prefix(tokens, prompt), len(prompt) - 1)
        named = [one for one in (image, other) if one[0]]
        compared = len(named) == 2 or (self.strict and named)
        return min(shared, *(start for _, start in named)) if compared and image != other else shared

    def complete(self, prompt, n_predict, key="", key_start=0):
        image, tokens = (key, key_start), tuple(prompt)
        best = max(self.entries, key=lambda entry: self.usable(entry, tokens, image), default=None)
        cached = self.usable(best, tokens, image) if best else 0
        memory = best[2][cached] if cached else self.toy.empty
        memories = [*best[2][:cached], memory] if cached else [memory]
        for token in read_under(prompt, key, key_start)[cached:]:
            memory, said = self.toy.feed(memory, [token])
            memories.append(memory)
        self.entries.append((tokens, image, memories))
        return {"tokens": [said.token] * n_predict, "fingerprint": said.digest, "cached": cached,
                "evaluated": len(prompt) - cached}  # fmt: skip


class Features:
    """Keeps no prompts, only the features of encoded images. ``part``: what of an image finds its features."""

    def __init__(self, part):
        self.part, self.toy, self.features = part, Toy("A"), {}

    def complete(self, prompt, n_predict, key="", key_start=0):
        seen = self.features.setdefault(self.part(key), key)
        _, said = self.toy.feed(self.toy.empty, read_under(prompt, seen, key_start))
        return {"tokens": [said.token] * n_predict, "fingerprint": said.digest}


class Salted(Blocks):
    """The key is a salt: it keeps prompts apart, and no number depends on it."""

    def read(self, prompt, key, start):
        return tuple(prompt)


class WrongKey(NamedTuple):
    """A kind of wrong key. ``part``: what of a request's key is compared. ``smallest``: for each property that fails,
    the shortest history that shows it."""

    title: str
    keys: list
    smallest: dict[str, str]
    cache: Callable = Blocks
    part: Callable = nothing

    def make(self, repaired=False):
        """Return an empty cache."""
        return self.cache(whole if repaired else self.part)


KINDS = {
    "image": WrongKey(
        "the tokens alone: the placeholders of all images are equal",
        [("image 1", 1), ("image 2", 1)], {"key": "A2/A.B1", "unseen": "A2/A.B1"},
    ),
    "hash": WrongKey(
        "the last 16 bits of the image's hash", [("5f0e1a2b", 1), ("93c41a2b", 1)],
        {"key": "A2/A.B1", "unseen": "A2/A.B1"}, part=lambda key: key[-4:],
    ),
    "one-sided": WrongKey(
        "the image, if both the entry and the request have one", ["", ("image", 1)],
        {"key": "A2/A.B1", "unseen": "A2/A.B1"}, Regions,
    ),
    "path": WrongKey(
        "the path of the image: a file that is written again keeps its features",
        [("frame.jpg, red", 1), ("frame.jpg, blue", 1)], {"new": "A1/B2"}, Features, name,
    ),
    "adapter": WrongKey(
        "the tokens alone, for all adapters", ["adapter 0", "adapter 1"], {"key": "A1/A.B1", "unseen": "A1/A.B1"},
    ),
    "reload": WrongKey(
        "the adapter's name: it stays when other weights are loaded", ["tenant, weights 1", "tenant, weights 2"],
        {"key": "A1/A.B1", "unseen": "A1/A.B1"}, part=name,
    ),
    "mixed": WrongKey(
        "adapter and salt in one list: a salt may be the name of an adapter", ["adapter x", "salt x"],
        {"key": "A1/A.B1", "unseen": "A1/A.B1"}, part=lambda key: key[-1:],
    ),
    "salt": WrongKey("the tokens alone, for all salts", ["salt 1", "salt 2"], {"unseen": "A1/A.B1"}, Salted),
}


def main(words):
    """Print the kinds, or the report of one."""
    if not words:
        print("\n".join(f"{name:10} {kind.title}" for name, kind in KINDS.items()))
        return
    kind = KINDS[words[0]]
    print(conform(partial(kind.make, "repaired" in words), keys=kind.keys, max_examples=30, check=False))


if __name__ == "__main__":
    main(sys.argv[1:])
