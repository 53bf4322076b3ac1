"""A llama-server of a build without a request that marks a place in its log.

The main loop of such a server reports every request for ``/slots`` in the log, as later builds do. A report, and then
an idle server, end the log of everything that was sent before. Source: llama.cpp tools/server/server.cpp, later
server-context.cpp, SERVER_TASK_TYPE_METRICS (b7376 to b9873).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cachesim.engines.llama_cpp.log_events import ENDING_TOKEN, IDLE, SLOTS_REPORT, Entry, numbers_of
from cachesim.tools.live.llama_server.client import GREEDY
from cachesim.tools.live.llama_server.process import Logbook
from cachesim.tools.live.llama_server.server import IDLE_WITHIN, LlamaServer, ServerStart


def _ending_tokens(log: Path) -> list[int]:
    """Return the tokens that end an answer, which a server logs at its start. The programs of wheels before b8929 do
    not forbid them for ``ignore_eos``."""
    numbers = (numbers_of(ENDING_TOKEN, entry.text) for entry in Logbook(log).read())
    return sorted({found["token"] for found in numbers if found is not None})


class OlderServer(LlamaServer):
    """A server process with its client and its log, whose main loop answers ``/slots``."""

    n_slots = 0                 # as the server reported last

    def __init__(self, start: ServerStart, folder: Path, log: Path, listen: bool = True) -> None:
        super().__init__(start, folder, log, listen)
        self.client.fixed = {**GREEDY, "logit_bias": [[token, False] for token in _ending_tokens(log)]}

    def _read_facts(self) -> dict[str, Any]:
        return {**super()._read_facts(), "n_slots": self.n_slots}

    def settled(self) -> list[Entry]:
        """Wait until no slot works; return the messages since the last call. Raise Ended and Stuck.

        A separate thread writes the log, some time after the answers. A request that was released in the meantime is
        taken before the server logs that it is idle."""
        asked = 0
        is_idle = False

        def quiet() -> bool:
            nonlocal asked, is_idle
            self.listen()
            if not is_idle:
                slots = self.reported_slots()
                asked += 1
                self.n_slots = len(slots)
                is_idle = not any(slot.get("is_processing") for slot in slots)
                return False
            texts = [entry.text for entry in self.said]
            reports = [place for place, text in enumerate(texts) if text.startswith(SLOTS_REPORT)]
            return len(reports) >= asked and IDLE in texts[reports[asked - 1] :]

        self.process.wait(quiet, IDLE_WITHIN, "finishing the pending work")
        return self.taken()
