"""Tokens of a conversation that the server did not reuse although the client sent them unchanged, and why.

The relay sees which requests, slot actions and failed connections came after the previous request of a conversation.
A cause is stated if it follows from these; the slots are those that replies, actions or the log state. Otherwise the
loss is stated without a cause.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field, replace
from typing import Any, Iterator, NamedTuple

from cachesim.tools.request_bodies.prompt_causes import BACK, EXTENDS, OF_ANSWER, SAME

NEAR = 16                    # tokens at the end of a prompt that a template may render differently, at most
KEPT, EVENTS = 4_096, 1_024  # requests and events that are kept
FORBIDDEN = "reuse forbidden"
RESTARTED = "restarted"
OVERWRITTEN = "overwritten"
OTHER_SLOT = "other slot"
ACTIONS = {"erase": "erased", "restore": "restored over"}
"""Actions after which a slot has other contents, and the causes that they are."""
KEEPS = (EXTENDS, SAME, BACK, *OF_ANSWER)
"""Causes of bodies that keep the previous prompt, or its beginning."""
UNKNOWN = "unknown"
UNREACHABLE = "unreachable"
ADVICE = {
    FORBIDDEN: "leave out cache_prompt: false",
    OVERWRITTEN: "more slots (one for each conversation), or a larger prompt cache",
}
"""Advice for the client, by cause."""


class BodyLink(NamedTuple):
    """A compared body: its number, and that of the body that it was compared with (0 = none). ``conversation``: number
    of its conversation; ``forbids``: it sets ``cache_prompt`` to false."""

    number: int = 0
    before: int = 0
    conversation: int = 0
    forbids: bool = False


@dataclass(frozen=True, slots=True)
class ServedRequest:
    """A request that has ended. ``ended``: moment; ``prompt``: tokens of it that were in the slot; counts are None if
    they are unknown."""

    link: BodyLink
    ended: int
    slot: int | None = None
    run: int | None = None
    task: int | None = None
    prompt: int | None = None
    reused: int | None = None


class _Event(NamedTuple):
    moment: int
    what: str                # UNREACHABLE, "erase", "restore"
    slot: int | None = None


@dataclass(slots=True)
class ServerLosses:
    """What the server was asked so far. ``slots``: number of its slots, as it stated, 0 = unknown."""

    slots: int = 0
    _served: OrderedDict[int, ServedRequest] = field(default_factory=OrderedDict)
    _events: deque[_Event] = field(default_factory=lambda: deque(maxlen=EVENTS))

    def note(self, moment: int, what: str, slot: int | None = None) -> None:
        """Take note of a slot action, or of a server that could not be reached."""
        self._events.append(_Event(moment, what, slot))

    def add(self, request: ServedRequest, cause: str) -> None:
        """Take note of a request that has ended, or of more that is known about it. ``cause``: that of its body."""
        previous = self._served.get(request.link.before)
        if request.prompt is None and previous is not None and cause in KEEPS:
            request = _unfinished(previous, request)
        self._served[request.link.number] = request
        while len(self._served) > KEPT:
            self._served.popitem(last=False)

    def loss(self, number: int, cause: str) -> dict[str, Any] | None:
        """Return the loss that a request met, None if none is known. ``number``: that of its body."""
        request = self._served.get(number)
        previous = None if request is None else self._served.get(request.link.before)
        if request is None or previous is None or cause not in KEEPS:
            return None
        return self._loss(request, previous, cause)

    def is_free(self, number: int) -> bool:
        """True if the counts show that a request reused the whole previous prompt, so that no change of its body cost
        a token. ``number``: that of its body."""
        request = self._served.get(number)
        previous = None if request is None else self._served.get(request.link.before)
        if request is None or previous is None:
            return False
        if request.prompt is None or request.reused is None or previous.prompt is None:
            return False
        return request.reused >= min(previous.prompt, request.prompt - 1)

    def _loss(self, request: ServedRequest, previous: ServedRequest, cause: str) -> dict[str, Any] | None:
        """Return the loss of a request whose body keeps the previous prompt, or the beginning of it."""
        if request.prompt is None or request.reused is None or previous.prompt is None:
            return None
        kept = request.prompt - 1 if cause == BACK else min(previous.prompt, request.prompt - 1)
        if kept - request.reused <= NEAR:
            return None
        name, says = self._why(request, previous)
        whole = f"{kept - request.reused:,} of {kept:,} tokens that were sent before are evaluated again: {says}"
        return {"cause": name, "tokens": kept - request.reused, "says": whole, "advice": ADVICE.get(name, "")}

    def _why(self, request: ServedRequest, previous: ServedRequest) -> tuple[str, str]:
        """Return the cause of a loss, and a sentence about it."""
        if request.link.forbids:
            return FORBIDDEN, "the request forbids reuse (cache_prompt: false)"
        others = list(self._others(request, previous))
        if any(_is_restart(previous, one) for one in (request, *others)):
            return RESTARTED, "the server was restarted"
        events = [one for one in self._events if previous.ended < one.moment <= request.ended]
        if any(one.what == UNREACHABLE for one in events):
            return UNREACHABLE, "the server could not be reached meanwhile (a restart, or a failed connection)"
        slot, own = self._slot_of(previous), self._slot_of(request)
        if slot is not None:
            taken = [(one.ended, OVERWRITTEN, f"conversation {one.link.conversation} overwrote slot {slot}")
                     for one in others if self._slot_of(one) == slot]  # fmt: skip
            taken += [(one.moment, ACTIONS[one.what], _action_text(one.what, slot)) for one in events
                      if one.slot == slot and one.what in ACTIONS]  # fmt: skip
            if taken:
                return min(taken)[1:]
            if own is not None and own != slot:
                return OTHER_SLOT, f"it ran in slot {own}, and its conversation was in slot {slot}"
        if not others:
            return UNKNOWN, "the cause is not known"
        names = sorted({one.link.conversation for one in others})
        which = f"conversation {names[0]}" if len(names) == 1 else f"{len(names)} other conversations"
        return UNKNOWN, f"the cause is not known ({which} used the server meanwhile)"

    def _others(self, request: ServedRequest, previous: ServedRequest) -> Iterator[ServedRequest]:
        """Yield the requests of other conversations that the server answered after the previous request."""
        for one in self._served.values():
            if previous.ended < one.ended <= request.ended and one.link.conversation != request.link.conversation:
                yield one

    def _slot_of(self, request: ServedRequest) -> int | None:
        """Return the slot of a request, None if it is unknown."""
        return 0 if request.slot is None and self.slots == 1 else request.slot


def _is_restart(before: ServedRequest, after: ServedRequest) -> bool:
    """True if a server was started between two requests, as their log shows: task numbers begin again. A run
    alone does not show it: it may begin where the log is ambiguous."""
    if before.task is None or after.task is None or before.run == after.run:
        return False
    return after.task <= before.task


def _unfinished(previous: ServedRequest, request: ServedRequest) -> ServedRequest:
    """Return a request without known counts: its slot holds at least the previous prompt, if it is the same slot."""
    slot = previous.slot if request.slot is None else request.slot
    return replace(request, slot=slot, prompt=previous.prompt if slot == previous.slot else None)


def _action_text(what: str, slot: int) -> str:
    return f"slot {slot} was erased" if what == "erase" else f"a saved file was restored into slot {slot}"
