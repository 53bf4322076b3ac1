"""A llama-server of an older build, whose log is not read: only its answers are compared.

The log of a build before b7376 was not compared. Such a server is idle when `/slots` names no busy slot; the main
loop answers `/slots` after all requests that were sent before.
"""

from __future__ import annotations

from typing import Any, Callable

from cachesim.engines.llama_cpp.log_events import Entry
from cachesim.tools.live.llama_server.server import IDLE_WITHIN, LlamaServer


class QuietServer(LlamaServer):
    """A server process with its client. ``said`` stays empty."""

    is_logged = False

    def _read_facts(self) -> dict[str, Any]:
        return {"n_slots": len(self.reported_slots())}

    def listen(self) -> None:
        """Do nothing: the log is not read."""

    def await_answers(self) -> None:
        """Do nothing: a server that never answers is noticed by the time limit of its reply."""

    def taken(self) -> list[Entry]:
        """Return no messages."""
        return []

    def settled(self) -> list[Entry]:
        """Wait until no slot works; return no messages. Raise Ended."""
        self.process.wait(lambda: not any(slot.get("is_processing") for slot in self.reported_slots()), IDLE_WITHIN,
                          "finishing the pending work")  # fmt: skip
        return []

    def ear(self, texts: tuple[str, ...]) -> Callable[[], None]:
        """Return a function that waits until a slot works. It raises Ended."""
        def works() -> bool:
            return any(slot.get("is_processing") for slot in self.reported_slots())

        return lambda: self.process.wait(works, IDLE_WITHIN, "starting a request")
