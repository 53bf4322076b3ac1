"""Readers that no command line reaches without another process: replies of a tested process, the log of a live server,
replies over HTTP, and the programs that run exported files.

Each takes a mutant and returns an exit code, like a command.
"""

from __future__ import annotations

from itertools import cycle

from cachesim.base.console import complain
from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.log_events import entries, numbered, read_event
from cachesim.tools.conformance import conform, suite
from cachesim.tools.conformance.jsonl_adapter import ProcessSubject
from cachesim.tools.live.llama_server.tasks import read_tasks
from tests.hostile.exported import executed
from tests.hostile.http_server import served
from tests.hostile.served_pages import analysed, answered_page
from tests.hostile.tested_caches import collected, machine_run

HISTORIES = ("A5/A", "A5.B3/A.C2/A.B", "A9>r2/A.r.B4!/A")


class Recited(ProcessSubject):
    """Tested process that answers with the given lines in turn, whatever the question. Every instance starts with the
    first line."""

    lines: tuple[bytes, ...] = ()

    def __init__(self, command, patience):
        self.patience, self.dead, self.closed = patience, "", False
        self.next = cycle(self.lines)

    def close(self):
        self.closed = True

    def _ended(self, line):
        return "the process ended"

    def _exchange(self, question):
        return self._read(next(self.next))


def answered(mutant):
    """Return the exit code of a test of such a process: 0 it conforms, 1 it does not, 2 it cannot be tested."""
    Recited.lines = tuple(line + b"\n" for line in mutant.data.split(b"\n")) or (b"",)
    suite.ProcessSubject = Recited
    try:
        report = conform(["recited"], histories=HISTORIES, max_examples=3, max_requests=3, max_prompt=20, check=False)
    except BadInput as bad:
        complain(str(bad))
        return 2
    print(report)
    return 0 if report.conforms else 1


def logged(mutant):
    """Read a server log and return the exit code, always 0."""
    messages = [entry for line in mutant.data.decode("utf-8", "replace").split("\n") for entry in entries(line)]
    events = numbered([event for event in map(read_event, messages) if event is not None], one_slot=False)
    print(len(events), "events,", len(read_tasks(messages)), "tasks")
    return 0


READERS = {
    "replies": answered, "log": logged, "http": served, "exported": executed, "playground": answered_page,
    "relay": analysed, "cache": machine_run, "plugin": collected,
}  # fmt: skip
