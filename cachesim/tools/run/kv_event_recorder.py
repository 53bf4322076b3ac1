"""Recorder of the KV events that a server publishes in a judged run."""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.engines.base import Answer, Request
from cachesim.engines.contract import Server
from cachesim.engines.server_parts import EventHashing
from cachesim.scenarios.runner import SilentObserver
from cachesim.scenarios.schema import Action, Step
from cachesim.tools.run.kv_event_messages import EventMessage


class EventRecorder(SilentObserver):
    """Observer that collects the messages of the servers of a run. A server numbers its messages from 0. A simulation
    has no clock: the time stamp of a message is the number of the last step that had begun."""

    server: Server | None = None

    def __init__(self, hashing: EventHashing) -> None:
        self.hashing = hashing
        self.messages: list[EventMessage] = []
        self.assumptions: list[str] = []
        self.step = 0
        self.seq = 0

    def started(self, server: Server) -> None:
        """Let a server publish, also after a restart. Raise BadInput if it does not."""
        self._collect()
        server.published_events.start(self.hashing)
        self.server = server
        self.seq = 0

    def begins(self, number: int, step: Step) -> None:
        """Collect what was published before a step."""
        self._collect()
        self.step = number

    def answered(self, number: int, request: Request, answer: Answer) -> None:
        """Collect what was published for a request, or before."""
        self._collect()

    def acted(self, number: int, action: Action, reply: Mapping[str, Any]) -> None:
        """Collect what was published by a step that is not a completion."""
        self._collect()

    def finish(self) -> list[EventMessage]:
        """Return all messages of the run."""
        self._collect()
        return self.messages

    def _collect(self) -> None:
        if self.server is None:
            return
        published = self.server.published_events
        for batch in published.take():
            self.messages.append(EventMessage(self.seq, float(self.step), batch.events, batch.rank))
            self.seq += 1
        for line in published.assumptions():
            if line not in self.assumptions:
                self.assumptions.append(line)
