"""Which request goes on from which? Several conversations, and the agents below them, lie in one folder.

Two questions that have two answers. Which earlier prompt shares the longest prefix: that is what a cache can use.
Which earlier request is the one before it in its conversation: the one whose messages come back, wherever they stand,
for a date in front of everything makes all prompts share the same short prefix.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict, deque
from functools import lru_cache
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.body import REASONING, Body, BodyMessage, common_suffix, encoded

BLOCK = 512                  # characters of a prompt behind one key
KEPT = 8                     # latest requests kept for each message
TRIVIAL = 24                 # characters of messages that say nothing of whose conversation it is
CHUNKS, CHUNK = 16, 48       # stretches of a prompt without messages that are looked for in earlier ones
_SUMMARY = re.compile(r"summar|compact(ed|ion)|continued from a previous|conversation (history|so far)|condensed", re.I)
_SPACE = re.compile(r"\s+")


class Link(NamedTuple):
    """``best``: the earlier request that shares the longest prefix (-1 = none shares anything), ``common`` characters
    of it; ``before``: the one before it in its ``conversation``, -1 = it begins one."""

    best: int
    common: int
    before: int
    conversation: int


class Prefixes:
    """Finds the longest common prefix with any earlier text: every ``BLOCK`` characters a text has a key that stands
    for all before it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.same: dict[str, int] = {}
        self.keys: dict[bytes, list[int]] = defaultdict(list)

    def add(self, text: str) -> tuple[int, int]:
        """A text with the longest common prefix among those added before (the same text, or the latest), and its
        length."""
        known = self.same.get(text, -1)
        self.same[text] = len(self.texts)
        if known >= 0:
            self.texts.append(text)
            return known, len(text)
        number, shared = len(self.texts), list(range(len(self.texts)))
        found: list[int] | None = shared
        digest = hashlib.blake2b(digest_size=16)
        start = 0
        for at in range(BLOCK, len(text) + 1, BLOCK):
            digest.update(encoded(text[at - BLOCK : at]))
            key = digest.digest()
            if found:
                found = self.keys.get(key)
                if found:
                    shared, start = found, at - BLOCK
            self.keys[key].append(number)
        self.texts.append(text)
        # of those that share the last block, what follows decides; they are equal up to there
        sizes = [(start + common_prefix(self.texts[i][start : start + 2 * BLOCK], text[start : start + 2 * BLOCK]), i)
                 for i in shared if i != number]  # fmt: skip
        size, best = max(sizes, default=(0, -1))
        return (best, size) if size else (-1, 0)


@lru_cache(maxsize=1 << 15)
def core(message: BodyMessage) -> str:
    """What a message says, whatever is done to its reasoning and to white space."""
    return _SPACE.sub(" ", message.said(REASONING)).strip()


def key_of(message: BodyMessage) -> int:
    """A number that stands for who says what."""
    return hash((message.role, core(message)))


class Conversations:
    """The requests so far. ``add`` says where the next one belongs."""

    def __init__(self) -> None:
        self.prefixes = Prefixes()
        self.bodies: list[Body] = []
        self.links: list[Link] = []
        self.by_message: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.by_system: dict[str, int] = {}
        self.count = 0

    def add(self, body: Body, text: str) -> Link:
        """The link of one more request, whose prompt is ``text``."""
        best, common = self.prefixes.add(text)
        before = self._before(body, text, best, common)
        if before < 0:
            conversation, self.count = self.count, self.count + 1
        else:
            conversation = self.links[before].conversation
        number = len(self.links)
        self.bodies.append(body)
        self.by_system[told(body)] = number
        self.links.append(Link(best, common, before, conversation))
        for key in {key_of(one) for one in talk(body)}:
            self.by_message[key].append(number)
        return self.links[-1]

    def _before(self, body: Body, text: str, best: int, common: int) -> int:
        if body.raw:
            return self._by_chunks(text, best, common)
        scores: Counter[int] = Counter()
        mine = {key_of(one): len(core(one)) + 1 for one in talk(body)}
        for key, size in mine.items():
            for number in self.by_message.get(key, ()):
                scores[number] += size
        enough = min(TRIVIAL, sum(mine.values()) // 2 + 1)
        found = max(scores.items(), key=lambda pair: (pair[1], pair[0]), default=(-1, 0))
        if found[1] >= enough:
            return found[0]
        return self._otherwise(body, text, best, common)

    def _otherwise(self, body: Body, text: str, best: int, common: int) -> int:
        """No message comes back: its first one was edited, or the history is a summary now."""
        if best < 0:
            return -1
        first = next(talk(body), None)
        if first is None:
            return best if common * 2 > len(text) else -1
        for other in dict.fromkeys((best, len(self.links) - 1)):
            old = next(talk(self.bodies[other]), None)
            if old is not None and _edited(core(old), core(first)) and _edited(told(self.bodies[other]), told(body)):
                return other
        if summarised(body.messages[:3]):
            return self.by_system.get(told(body), -1)
        return -1

    def _by_chunks(self, text: str, best: int, common: int) -> int:
        """The latest of the last requests in which most stretches of this prompt occur."""
        if best >= 0 and common * 2 >= len(text):
            return best
        step = max(1, len(text) // CHUNKS)
        chunks = [text[at : at + min(CHUNK, step)] for at in range(0, len(text), step)]
        latest = range(len(self.bodies) - 1, max(-1, len(self.bodies) - 1 - KEPT), -1)
        known = [(sum(chunk in self.prefixes.texts[i] for chunk in chunks), i) for i in latest if self.bodies[i].raw]
        found = max(known, default=(0, -1))
        return found[1] if found[0] * 4 >= len(chunks) else -1


def talk(body: Body) -> Iterator[BodyMessage]:
    """The messages of a conversation: not what the system says."""
    return (one for one in body.messages if not one.system)


def told(body: Body) -> str:
    """What the system says."""
    return "\n".join(core(one) for one in body.messages if one.system)


def _edited(a: str, b: str) -> bool:
    """Are two texts the same but for a fifth of it?"""
    n = common_prefix(a, b)
    rest = min(len(a), len(b)) - n
    end = common_suffix(a, b, rest)
    return a == b or (n + end) * 5 >= max(len(a), len(b)) * 4


def summarised(messages: Sequence[BodyMessage]) -> bool:
    """Does one of these messages say that it stands for others?"""
    return any(_SUMMARY.search(core(one)[:4000]) for one in messages)

