"""Assignment of log lines to server runs, because a file may contain a restart, or the logs of several servers.

The source of a line (the prefix of a container, unit or port), its time stamp and its task id show its run. In doubt a
new run begins: values are then not combined, which costs conclusions but makes none of them wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cachesim.engines.shared.log_grammar import LogGrammar, ParsedLine
from cachesim.tools.server_logs.lines.line_prefixes import LogMessage

SLACK = 10_000               # time by which lines of different threads may be swapped [us]
TOGETHER = 1_000             # time between lines that belong together [us]
CLEARLY = 10                 # factor by which a run must be nearer than all others
KEPT = 8                     # runs of a source that later lines can belong to, at most
TASKS, SOURCES = 4_096, 256  # latest tasks of a run, and latest sources, that are kept
_STARTUP = re.compile(r"start|no_(?:cache|limit|ckpt|drafts)|server|memory|version|verbosity|capped|idle")
"""Kinds of line that a server prints before its first request."""
_END = re.compile(r"(?:operator\(\): |~Server: )?(?:cleaning up before exit|main loop exited)")
"""Beginnings of the messages that a server prints when it ends."""


@dataclass(slots=True, eq=False)
class _Run:
    """Run of a server."""

    number: int
    stamp: int | None = None                               # last time stamp [us]
    stamps: bool | None = None                             # its lines have time stamps, None = unknown
    is_active: bool = False                                # has printed a line about a request
    is_over: bool = False                                  # has printed that it ends
    launched: dict[int, None] = field(default_factory=dict)           # tasks that were launched
    tasks: dict[tuple[int, int], None] = field(default_factory=dict)  # (slot, task) of its lines

    def add_task(self, slot: int, task: int, launches: bool) -> None:
        """Store the slot and task of a line, and forget the oldest beyond the limit."""
        self.tasks[slot, task] = None
        if launches:
            self.launched[task] = None
        if len(self.tasks) > TASKS:
            del self.tasks[next(iter(self.tasks))]
        if len(self.launched) > TASKS:
            del self.launched[next(iter(self.launched))]


class ServerRuns:
    """Runs of all sources of a log so far."""

    def __init__(self, grammar: LogGrammar) -> None:
        self._starts = tuple(start.lower() for start in grammar.starts)
        self._runs: dict[str, list[_Run]] = {}
        self._count = 0
        self._latest = 0         # run of the last message

    def run_of(self, logged: LogMessage, read: ParsedLine | None) -> int:
        """Return the number of the run that printed a message, from 0. An unknown message without any prefix
        begins no run, since another program may have printed it. Messages must be passed in the order of the file."""
        is_foreign = read is None and not logged.prefix and not logged.function and not logged.source
        if not is_foreign or logged.source in self._runs:
            self._latest = self._run_in(self._runs.setdefault(logged.source, []), logged, read)
        return self._latest

    def _run_in(self, runs: list[_Run], logged: LogMessage, read: ParsedLine | None) -> int:
        """Return the number of the run among those of a source, which begins if none of them printed the message."""
        if len(self._runs) > SOURCES:
            del self._runs[next(iter(self._runs))]
        is_whole = logged.function and (read is not None or logged.slot is not None)
        stamps = logged.stamp is not None if is_whole else None
        known = [run for run in runs if run.stamps in (None, stamps) or stamps is None]
        run = self._find([run for run in known if read is None or not run.is_over], logged)
        if run is None or self._is_restart(run, logged, read):
            run = _Run(self._count)
            self._count += 1
        if not runs or run is not runs[-1]:
            runs[:] = [*[known for known in runs if known is not run][1 - KEPT :], run]   # the last is the current one
        run.is_over |= bool(_END.match(logged.text))
        run.stamp = run.stamp if logged.stamp is None else logged.stamp
        run.stamps = run.stamps if stamps is None else stamps
        if read is not None and not _STARTUP.match(read.line.ev):
            run.is_active = True
        if logged.slot is not None and logged.task is not None and logged.task >= 0:
            run.add_task(logged.slot, logged.task, _launches(read))
        return run.number

    def _find(self, runs: list[_Run], logged: LogMessage) -> _Run | None:
        """Return the known run that printed a message, None if it is a new run or unclear."""
        if not runs or logged.stamp is None or runs[-1].stamp is None:
            return runs[-1] if runs else None
        owners = [run for run in runs if (logged.slot, logged.task) in run.tasks]
        gaps = sorted((max(TOGETHER, logged.stamp - (run.stamp or 0)), run is not runs[-1], run.number, run)
                      for run in runs if logged.stamp >= (run.stamp or 0) - SLACK)  # fmt: skip
        near = [run for *_, run in gaps]                         # no two runs have one number
        if len(owners) == 1 and owners[0] in near:
            return owners[0]
        is_clear = len(gaps) == 1 or (gaps and gaps[0][0] * CLEARLY <= gaps[1][0])
        return near[0] if is_clear or (gaps and gaps[0][0] == TOGETHER and near[0] is runs[-1]) else None

    def _is_restart(self, run: _Run, logged: LogMessage, read: ParsedLine | None) -> bool:
        """True if a message can only be that of a server that started after this run."""
        if not run.is_active:
            return False
        if self._starts and logged.text[:60].lower().startswith(self._starts):
            return True
        if not _launches(read) or logged.task is None or not run.launched:
            return False
        return logged.task in run.launched or logged.task < min(run.launched)


def _launches(read: ParsedLine | None) -> bool:
    """True if a message launches a task. Further completions are launched before the task of their request."""
    return read is not None and read.line.ev == "launch" and not read.numbers.get("is_child")
