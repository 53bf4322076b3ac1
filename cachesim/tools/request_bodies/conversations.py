"""Assignment of requests to conversations (several conversations and sub-agents may share a folder), and search for
shared prefixes.

Each request has two relations. The earlier prompt with the longest common prefix is what a cache can reuse. The
previous request of the conversation is found by messages that both contain, wherever they are: a date at the start
makes all prompts share the same short prefix.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from functools import lru_cache
from typing import Iterator, NamedTuple, Sequence

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.body import IMAGE, REASONING, Body, BodyMessage, common_suffix
from cachesim.tools.request_bodies.shared_prefixes import shared_prefixes

RECENT = 64                  # latest requests whose answers are searched in a prompt without a known message
KEPT = 8                     # latest requests stored for each message
MARKED = 8                   # characters of a first message from which only a text between brackets was removed
TRIVIAL = 24                 # repeated characters that suffice to identify a conversation
CHUNKS, CHUNK = 16, 48       # chunks of a raw prompt to search in earlier prompts; characters of a chunk
_SUMMARY = re.compile(r"summar|compact(ed|ion)|continued from a previous|conversation (history|so far)|condensed", re.I)
_SPACE = re.compile(r"\s+")


class ConversationLink(NamedTuple):
    """Relations of a request to earlier requests."""

    best: int                # earlier request with the longest common prefix, -1 = none
    common: int              # characters of that prefix
    before: int              # previous request of the conversation, -1 = it is the first
    conversation: int        # number of the conversation, from 0


@lru_cache(maxsize=1 << 15)
def core_text(message: BodyMessage) -> str:
    """Return the text of a message without reasoning and with normalised white space."""
    return _SPACE.sub(" ", message.text_without(REASONING)).strip()


def message_key(message: BodyMessage) -> int:
    """Return a hash of the role and the normalised text of a message."""
    return hash((message.role, core_text(message)))


@lru_cache(maxsize=1 << 15)
def spoken_text(message: BodyMessage) -> str:
    """Return the text that identifies a message even if its image changed: only the kind of an image is part of it."""
    text = "".join(part.text.partition(" ")[0] if part.kind == IMAGE else part.text
                   for part in message.parts if part.kind != REASONING)  # fmt: skip
    return _SPACE.sub(" ", text).strip()


def spoken_key(message: BodyMessage) -> int:
    """Return a hash of the role and the identifying text of a message."""
    return hash((message.role, spoken_text(message)))


class ConversationLinker:
    """Requests so far; ``add`` assigns the next request to a conversation. ``texts``: the prompts of all requests."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts, self.shared = texts, shared_prefixes(texts)
        self.bodies: list[Body] = []
        self.links: list[ConversationLink] = []
        self.by_message: dict[int, deque[int]] = defaultdict(lambda: deque(maxlen=KEPT))
        self.by_system: dict[str, int] = {}
        self.count = 0

    def add(self, body: Body) -> ConversationLink:
        """Add the next request and return its relations."""
        number = len(self.links)
        best, common = self.shared[number]
        before = self._find_previous(body, self.texts[number], best, common)
        if before < 0:
            conversation, self.count = self.count, self.count + 1
        else:
            conversation = self.links[before].conversation
        self.bodies.append(body)
        self.by_system[system_text(body)] = number
        self.links.append(ConversationLink(best, common, before, conversation))
        messages = list(conversation_messages(body))
        for key in {*map(spoken_key, messages), *map(message_key, messages)}:
            self.by_message[key].append(number)
        return self.links[-1]

    def learn_answer(self, number: int, body: Body) -> None:
        """Take a request again whose answer is known now."""
        self.bodies[number] = body

    def _find_previous(self, body: Body, text: str, best: int, common: int) -> int:
        """Return the previous request of the conversation, -1 = none: the earlier request with the most text in common
        messages."""
        if body.is_raw:
            return self._previous_by_chunks(text, best, common)
        scores: Counter[int] = Counter()
        other_images: set[int] = set()
        messages = {message_key(message): message for message in conversation_messages(body)}
        sizes = {spoken_key(message): len(spoken_text(message)) + 1 for message in messages.values()}
        for key, size in sizes.items():
            for number in self.by_message.get(key, ()):
                scores[number] += size
        for key, message in messages.items():
            if any(part.kind == IMAGE for part in message.parts):
                other_images |= {*self.by_message.get(spoken_key(message), ())} - {*self.by_message.get(key, ())}
        scores = Counter({number: score for number, score in scores.items() if self._may_go_on(number, body)})
        enough = min(TRIVIAL, sum(sizes.values()) // 2 + 1)
        found = max(((score >= enough, number not in other_images, score, number) for number, score in scores.items()),
                    default=(False, False, 0, -1))  # fmt: skip
        if found[0]:
            return found[-1]
        return self._previous_by_edit(body, text, best, common)

    def _may_go_on(self, number: int, body: Body) -> bool:
        """True if a request can follow another. One without answers can if its last message is known or was
        edited, or if no message is missing; else both only begin alike, for example with a reminder that a client sends
        to all agents."""
        if any(message.role == "assistant" for message in body.messages):
            return True
        old, new = ({spoken_key(message): spoken_text(message) for message in conversation_messages(one)}
                    for one in (self.bodies[number], body))  # fmt: skip
        last, text = list(new.items())[-1]
        return last in old or not old.keys() - new or any(_edited(one, text) for key, one in old.items()
                                                          if key not in new)  # fmt: skip

    def _previous_by_edit(self, body: Body, text: str, best: int, common: int) -> int:
        """Return the previous request when no message is repeated: its first message was edited, or the history was
        replaced by a summary."""
        if best < 0:
            return self._previous_by_answer(body)
        first = next(conversation_messages(body), None)
        if first is None:
            return best if common * 2 > len(text) else -1
        for i in dict.fromkeys((best, len(self.links) - 1)):
            old = next(conversation_messages(self.bodies[i]), None)
            if old is None or not self._may_go_on(i, body):
                continue
            edited = _edited(spoken_text(old), spoken_text(first))
            if not (edited or (self._answers(i, body) and _is_part(spoken_text(old), spoken_text(first)))):
                continue
            if _edited(system_text(self.bodies[i]), system_text(body)):
                return i
        if contains_summary(body.messages[:3]):
            return self.by_system.get(system_text(body), -1)
        return self._previous_by_answer(body)

    def _previous_by_answer(self, body: Body) -> int:
        """Return the latest of the recent requests whose answer is a part of this body, -1 = none."""
        latest = range(len(self.bodies) - 1, max(-1, len(self.bodies) - 1 - RECENT), -1)
        return next((i for i in latest if repeats_answer(self.bodies[i].answer, body.messages)), -1)

    def _answers(self, number: int, body: Body) -> bool:
        """True if a body has the messages of a request, their roles unchanged, and then its answer; no other
        request may have continued it."""
        old, new = ([message.role for message in conversation_messages(one)] for one in (self.bodies[number], body))
        continued = any(link.before == number for link in self.links)
        return not continued and new[: len(old) + 1] == [*old, "assistant"]

    def _previous_by_chunks(self, text: str, best: int, common: int) -> int:
        """Return the latest of the recent requests that contains most chunks of this prompt, -1 = none. A prompt that
        begins with all of an earlier one continues it, however long its new part is."""
        is_continued = best >= 0 and TRIVIAL <= len(self.texts[best]) <= common
        if is_continued or (best >= 0 and common * 2 >= len(text)):
            return best
        step = max(1, len(text) // CHUNKS)
        chunks = [text[at : at + min(CHUNK, step)] for at in range(0, len(text), step)]
        latest = range(len(self.bodies) - 1, max(-1, len(self.bodies) - 1 - KEPT), -1)
        known = [(sum(chunk in self.texts[i] for chunk in chunks), i) for i in latest if self.bodies[i].is_raw]
        found = max(known, default=(0, -1))
        return found[1] if found[0] * 4 >= len(chunks) else -1


def conversation_messages(body: Body) -> Iterator[BodyMessage]:
    """Yield the messages of a body except system messages."""
    return (message for message in body.messages if not message.is_system)


def system_text(body: Body) -> str:
    """Return the text of the system messages."""
    return "\n".join(core_text(message) for message in body.messages if message.is_system)


def _edited(a: str, b: str) -> bool:
    """True if two texts are equal except for at most a fifth of the longer text."""
    n = common_prefix(a, b)
    rest = min(len(a), len(b)) - n
    end = common_suffix(a, b, rest)
    return a == b or (n + end) * 5 >= max(len(a), len(b)) * 4


def _is_part(a: str, b: str) -> bool:
    """True if the shorter text is the longer text without one stretch, and long enough to recognise it: a
    stretch between brackets or tags leaves less doubt."""
    short, long = sorted((a, b), key=len)
    head = common_prefix(short, long)
    tail = common_suffix(short, long, len(short) - head)
    stretch = long[head : len(long) - tail].strip()
    least = MARKED if stretch[:1] in "<[(" and stretch[-1:] in ">])" else TRIVIAL
    return head + tail == len(short) >= least


def repeats_answer(answer: BodyMessage | None, messages: Sequence[BodyMessage]) -> bool:
    """True if one of these messages contains most of a generated answer: a client that summarises a conversation sends
    the summary in place of its history."""
    text = "" if answer is None else core_text(answer)
    if len(text) < TRIVIAL:
        return False
    size = CHUNK if len(text) >= 2 * CHUNK else len(text)
    chunks = [text[at : at + size] for at in range(0, len(text) - size + 1, size)]
    return any(2 * sum(chunk in core_text(message) for chunk in chunks) >= len(chunks) for message in messages)


def contains_summary(messages: Sequence[BodyMessage]) -> bool:
    """True if any of these messages is a summary of earlier messages."""
    return any(_SUMMARY.search(core_text(message)[:4000]) for message in messages)

