"""The KV events of a run in a file: options ``--kv-events FILE``, ``--kv-hash`` and ``--kv-hash-seed``."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Sequence

from cachesim.base.console import complain, note
from cachesim.base.errors import BadInput, counted
from cachesim.base.files import write_whole
from cachesim.engines.server_parts import EventHashing
from cachesim.tools.run.kv_event_messages import MSGPACK, check_msgspec, encoded
from cachesim.tools.run.kv_event_recorder import EventRecorder
from cachesim.tools.run.run_jobs import RunJob


class EventFile(NamedTuple):
    """A file for the events of a run, and the hashes in it."""

    file: str
    hashing: EventHashing

    @property
    def is_msgpack(self) -> bool:
        """True if the file gets msgpack."""
        return self.file.endswith(MSGPACK)

    def recorded(self, jobs: Sequence[RunJob]) -> list[RunJob]:
        """Return the job with an observer of its events. Raise BadInput for several jobs."""
        if len(jobs) > 1:
            raise BadInput(f"--kv-events writes the events of one run, found {len(jobs)}",
                           hint="one scenario and one -p")  # fmt: skip
        return [job._replace(event_recorder=EventRecorder(self.hashing)) for job in jobs]

    def write(self, job: RunJob) -> None:
        """Write the events of a job that has run. Raise BadInput if the file cannot be written."""
        recorder = job.event_recorder
        assert recorder is not None
        messages = recorder.finish()
        for line in recorder.assumptions:
            note(line)
        write_whole(Path(self.file), encoded(messages, self.is_msgpack))
        complain(f"wrote {self.file}: {counted(len(messages), 'message')}")


def event_file(file: str, algorithm: str, seed: str | None) -> EventFile:
    """Return the file of this name. Raise BadInput if the package for its form is missing. ``algorithm``: hash
    function, "" = the server's; ``seed``: PYTHONHASHSEED, None = not set."""
    found = EventFile(file, EventHashing(algorithm, seed))
    if found.is_msgpack:
        check_msgspec()
    return found
