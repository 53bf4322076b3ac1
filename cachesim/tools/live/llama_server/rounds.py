"""Rounds of a llama-server's main loop in which nothing happens: they are counted, and left out of what was heard.

A conversation that is loaded from the prompt cache over a prompt in progress, and is longer, leaves the slot without
tokens to evaluate: the server then fills empty batches for ever and writes thousands of rounds a second, all alike.
Ours does two of them and stops. Source: llama.cpp tools/server/server-context.cpp update_slots, server-queue.cpp
start_loop (b10566 to b11549).
"""

from __future__ import annotations

from typing import Callable, Iterable

from cachesim.engines.llama_cpp.log import DECODE, IDLE, ROUND, UPDATE, Entry, read_event

KEPT = 2                    # empty rounds that are heard, as many as ours does
MANY, LONG = 100, 2.0       # so many empty rounds in sequence, for so many seconds: nothing else will come

BESIDE = ("cancel", "warn", "error")    # said by other threads, or of what changes nothing


class Rounds:
    """Hears messages in the order of the log. ``clock`` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.empty = 0                  # in sequence, before the present round
        self._since = 0.0               # when the first of them was heard
        self._held: list[Entry] = []    # of the present round, which may turn out to be one too many
        self._updates = self._asked = self._works = False

    @property
    def spinning(self) -> bool:
        """Does the server work on nothing, and has it for some time?"""
        return self.empty >= MANY and self.clock() - self._since >= LONG

    def hear(self, said: Iterable[Entry]) -> list[Entry]:
        """The messages that count. Those of a round that may be one too many come as soon as it is known not to be."""
        out: list[Entry] = []
        for entry in said:
            if entry.text == ROUND:
                self._end()
            (out if self._look(entry) else self._held).append(entry)
            if self._works or self._asked or self.empty < KEPT:
                out += self._held
                self._held = []
        return out

    def _look(self, entry: Entry) -> bool:
        """A round works if it decodes, ends a task, or finds all slots idle. One that was only asked for something is
        heard, and is empty all the same. Is this message heard whatever becomes of its round?"""
        event = read_event(entry)
        if entry.text == UPDATE:
            self._updates = True
        elif entry.text == IDLE or entry.text.startswith(DECODE):
            self._works = True
        elif event is not None:
            self._works |= self._updates and event["ev"] == "release"
            self._asked |= not self._updates and event["ev"] not in BESIDE
        return event is not None and event["ev"] in BESIDE

    def _end(self) -> None:
        """The round is over. Had it anything to do?"""
        if self._updates:
            self.empty = 0 if self._works else self.empty + 1
            self._since = self.clock() if self.empty == 1 else self._since
        self._held = []
        self._updates = self._asked = self._works = False
