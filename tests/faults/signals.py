"""Time in which every command ends after a signal: ``python -m tests.faults --signals [COMMAND...]`` prints a table.

Each command is given an input that takes long. A signal is sent while it works, to the command alone, as `kill` does.
A second run sends another signal ``AGAIN`` seconds after the first, while the command is finishing.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable, Iterator, NamedTuple

from tests.faults.commands import EVENTS, STARTED, TESTS, server, session
from tests.faults.stopped import MARK
from tests.faults.surroundings import BUILD
from tests.faults.table import CASES, SEARCH, TRACES
from tests.faults.victim import End, Victim, marked
from tests.hostile.http_server import Handler, Server

SIGNALS = {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}
BOUND = 2.0             # seconds in which a command ends after a signal
AT_ONCE = 0.5           # seconds in which it ends after a second signal
AGAIN = 0.2             # seconds between the signals
WORKING = 0.3           # seconds of work before the first signal
BEGUN = 60.0          # seconds in which the work begins
REMOVED = 10.0          # seconds in which the site's builder ends: it removes some 7,000 files first
GIVEN_UP = 60.0         # seconds after which a command is killed
SILENT, ALIVE = "SILENT", "ALIVE"        # words that stand for the URL of a server that never answers, or that does


@dataclass(frozen=True)
class LongCommand:
    """A command line with an input that takes long. Functions get a folder and return words."""

    argv: Callable[[Path], tuple[object, ...]]
    at: str                                  # place in its work; when it is reached, the signal is sent
    keeps: bool = False                      # prints the results so far as JSON
    file: str = ""                           # file or folder that it writes after an interrupt, "" = none
    needs: str = ""                          # package that it needs, "" = none
    begins: float = BEGUN                    # seconds in which that place is reached
    bound: float = BOUND                     # seconds in which it ends after a signal

    @property
    def missing(self) -> str:
        """Return why it cannot run here, "" if it can."""
        return f"{self.needs} is not installed" if self.needs and find_spec(self.needs) is None else ""


class Ending(NamedTuple):
    """How a command ended. ``seconds``: after its last signal, None = it ended before; ``code``: exit code;
    ``is_first``: it ended before the second signal."""

    seconds: float | None
    code: int
    wrong: list[str]
    is_first: bool = False

    def __str__(self) -> str:
        seconds = "ended before" if self.seconds is None else f"{self.seconds:.2f}"
        after = ", after the first" if self.is_first else ""
        return f"{seconds} ({self.code}{after})" + "".join(f" WRONG {one}" for one in self.wrong)


def words(*argv: object) -> Callable[[Path], tuple[object, ...]]:
    """Return a command line without input files."""
    return lambda folder: argv


LONG_LINE = "/".join(f"S{'9' * (not i)}.{word}9000>{word.lower()}900" for i, word in enumerate("ABCDEFGHIJKLMNOPQR"))
"""Requests whose evaluation takes long."""


def log_lines(folder: Path) -> Path:
    """Return a log that takes long to read."""
    text = (TESTS / "unit/tools/server_logs/verbosity_4.log").read_text()
    (file := folder / "long.log").write_text(text * 400)
    return file


def long_events(folder: Path) -> Path:
    """Return KV events that take long to read."""
    (file := folder / "events.jsonl").write_text((EVENTS / "unnumbered.jsonl").read_text() * 2_000)
    return file


def growing_bodies(folder: Path) -> Path:
    """Return a folder with request bodies of a long conversation."""
    (made := folder / "bodies").mkdir(exist_ok=True)
    messages = []
    for number in range(300):
        messages.append({"role": "user", "content": f"question {number} " * 200})
        (made / f"{number:04}.json").write_text(json.dumps({"messages": messages}))
        messages.append({"role": "assistant", "content": f"answer {number} " * 200})
    return made


def slow_template(folder: Path) -> tuple[object, ...]:
    """Return an import whose template takes as long as it may."""
    (folder / "b.json").write_text('{"messages": [{"role": "user", "content": "hi"}]}')
    loops = ["{% for n in range(9999) %}"] * 3 + ["{% endfor %}"] * 3
    (folder / "t.jinja").write_text("".join(loops))
    return "import", folder / "b.json", "--template", folder / "t.jinja", "--limit", "parser-time=1000"


def long_session(folder: Path) -> Path:
    """Return a recorded session that takes long."""
    file = folder / "long.jsonl"
    file.write_text("".join(f'{{"blocks": {list(range(2 + n))}}}\n' for n in range(900)))
    return file


def fake(folder: Path, script: str) -> tuple[object, ...]:
    """Return the options for a server that is a shell script."""
    options = server(folder)
    version = "[ \"$1\" = --version ] && echo 'version: 11549 (abc)' && exit"
    (folder / "llama-server").write_text(f"#!/bin/sh\n{version}\n{script}\n")
    return options


DEAF = "trap '' TERM INT HUP; while :; do sleep 1; done"
RECORDER = "cachesim.tools.live.llama_server.recorder:Recorder.play"
STARTS = "cachesim.tools.live.llama_server.process:Process.wait"
JUDGED = "cachesim.judging.judged_run:run_judged"
POST = "cachesim.tools.conformance.http_check.http_client:Http.post"
FORKED = "cachesim.base.bounded_child:BoundedChild.ask"

MANY_REQUESTS = "S400.A600/B800/" + "S.C500/S.A/B.D90/S.A.E50/" * 6 + "B"
FAILING = "S40.A20/S.A>3/" + "B9/D8.A/E7.B/" * 60 + "S.A.C5"
MORE = ("--limit", "tokens=900000", "--limit", "sampled=900000")
SITE = ("-m", "cachesim.pages.site.__main__", "--out", "site", "-j", 2)

LONG: dict[str, LongCommand] = {
    "run": LongCommand(words("run", *CASES * 50, "-j", 1, "--json"), JUDGED, keeps=True),
    "run -j 2": LongCommand(words("run", *CASES * 50, "-j", 2, "--provenance", "--json"),
                            "cachesim.base.pool:Pool._take", keeps=True),
    "run --replicas": LongCommand(words("run", LONG_LINE, "-p", "vllm", "--replicas", 3, "--json", *MORE),
                                  "cachesim.tools.run.replicas.fleet:run_fleet"),
    "run --kv-events": LongCommand(words("run", LONG_LINE, "-p", "vllm", "--model", "A", "--kv-events", "a.jsonl",
                                         *MORE), JUDGED),
    "run (one case)": LongCommand(words("run", LONG_LINE, "--exact", "--json", *MORE), JUDGED),
    "why": LongCommand(words("why", LONG_LINE, 15, *MORE), JUDGED),
    "advise": LongCommand(words("advise", MANY_REQUESTS, "--seconds", 60, "--json"),
                          "cachesim.tools.advise.search:AdviceSearch.attempt", keeps=True),
    "advise --server": LongCommand(words("advise", "--server", STARTED), JUDGED),
    "advise (one run)": LongCommand(words("advise", LONG_LINE, "--json", *MORE), JUDGED),
    "diff": LongCommand(words("diff", LONG_LINE, "-p", "llama_cpp@b9518", "-p", "llama_cpp@b10587",
                              *MORE), JUDGED),
    "diff FOLDER": LongCommand(words("diff", TESTS.parent / "scenarios/llama_cpp", "-j", 1, "-p", "llama_cpp@b9518",
                                     "-p", "llama_cpp@b10587", "--json"), JUDGED, keeps=True),
    "bisect": LongCommand(words("bisect", LONG_LINE, *MORE), JUDGED),
    "playground": LongCommand(words("playground"), "uvicorn:Server.startup"),
    "fuzz": LongCommand(words(*SEARCH, "--examples", 100_000, "--out", "found"), "cachesim.tools.search.campaign:work",
                        keeps=True, file="found"),
    "fuzz -j 2": LongCommand(words(*SEARCH, "--examples", 100_000, "-j", 2, "--out", "found"),
                             "cachesim.base.pool:Pool._take", keeps=True, file="found"),
    "shrink": LongCommand(words("shrink", FAILING, "-p", "ik_llama@1889-base", "--model", "GA", *MORE),
                          "cachesim.scenarios.from_notation:parse"),
    "repair": LongCommand(words("repair", "ik_llama@1889-base", "--model", "GA", "--examples", 10_000),
                          "cachesim.tools.search.rule_mutations:run_mutations"),
    "repair -j 2": LongCommand(words("repair", "ik_llama@1889-base", "--model", "GA", "--examples", 10_000, "-j", 2),
                               "cachesim.base.pool:Pool._take"),
    "workload": LongCommand(lambda at: ("workload", long_session(at), "--json", "--out", "lines"),
                            "cachesim.tools.workload.cell_jobs:line_of", keeps=True, file="lines"),
    "workload -j 2": LongCommand(
        lambda at: ("workload", long_session(at), session(at), "-j", 2, "--json", "--out", "lines"),
        "cachesim.base.pool:Pool._start", keeps=True, file="lines"),
    "workload --curve": LongCommand(lambda at: ("workload", long_session(at), "--curve", "parallel=1,2,3", "--json"),
                                    "cachesim.tools.workload.cell_jobs:line_of"),
    "workload --replicas": LongCommand(lambda at: ("workload", long_session(at), "--replicas", 2, "--json"),
                                       "cachesim.tools.run.replicas.fleet:run_fleet"),
    "memory --workload": LongCommand(lambda at: ("memory", "qwen3-next", "--memory", "80GiB", "--workload",
                                                 long_session(at)),
                                     "cachesim.tools.memory.workload_cost:workload_cost"),
    "replay": LongCommand(words("replay", *TRACES * 100, "-j", 1, "--json"),
                          "cachesim.tools.replay.command:replay_file", keeps=True),
    "import (log)": LongCommand(lambda at: ("import", log_lines(at), "--limit", "log-requests=100000"),
                                "cachesim.tools.server_logs.import_log:read_session"),
    "import (events)": LongCommand(lambda at: ("import", long_events(at)),
                                   "cachesim.tools.server_logs.kv_events.command:read_messages"),
    "import (bodies)": LongCommand(lambda at: ("import", growing_bodies(at), "--limit", "bodies=1000"),
                                   "cachesim.tools.request_bodies.import_bodies:read_bodies"),
    "import (template)": LongCommand(slow_template, FORKED),
    "watch --once": LongCommand(lambda at: ("watch", "--once", log_lines(at), "--json"),
                                "cachesim.tools.watch.joined_rows:JoinedRows.logged"),
    "watch LOG": LongCommand(lambda at: ("watch", TESTS / "unit/tools/server_logs/verbosity_4.log", "--json"),
                             "cachesim.tools.watch.joined_rows:JoinedRows.logged"),
    "watch --listen": LongCommand(words("watch", "--listen", "127.0.0.1:0", "--to", ALIVE, "--json", "--save", "saved"),
                                  "cachesim.tools.watch.relay_process:relay_connections"),
    "watch --kv-events": LongCommand(words("watch", "--kv-events", EVENTS / "events.jsonl", "--json"),
                                     "cachesim.tools.watch.event_watch:EventWatch.run"),
    "check": LongCommand(words("check", ALIVE, "--json", "--junit", "a.xml", "--yes"), POST, keeps=True, file="a.xml"),
    "check (silent)": LongCommand(words("check", SILENT, "--json", "--junit", "a.xml", "--yes"),
                                  "cachesim.base.http_client:HttpClient.ask"),
    "check --real": LongCommand(lambda at: ("check", "--real", fake(at, DEAF)[1], "--json"), STARTS),
    "verify": LongCommand(lambda at: ("verify", "A5.B300/" + "A/B/" * 300 + "A", *server(at), "-p", "llama_cpp@b11549"),
                          RECORDER),
    "verify --url (silent)": LongCommand(words("verify", "A5/A", "--url", SILENT, "--layers", "GA"),
                                         "cachesim.base.http_client:HttpClient.ask"),
    "verify (deaf)": LongCommand(lambda at: ("verify", "A5/A", *fake(at, DEAF), "-p", "llama_cpp@b11549"), STARTS),
    "run --real (deaf)": LongCommand(lambda at: ("run", "A5/A", "--real", fake(at, DEAF)[1]), STARTS),
    "fuzz --real (deaf)": LongCommand(lambda at: ("fuzz", "--real", fake(at, DEAF)[1], "--json"), STARTS, keeps=True),
    "real serve": LongCommand(lambda at: ("real", "serve", server(at)[1], "-m", "GA"), STARTS),
    "real serve (deaf)": LongCommand(lambda at: ("real", "serve", fake(at, DEAF)[1], "-m", "GA"), STARTS),
    "record": LongCommand(lambda at: ("record", "A5.B300/" + "A/B/" * 300 + "A", *server(at), "--commit", "b11549",
                                      "--out", "a.json"), RECORDER),
    "record (deaf)": LongCommand(lambda at: ("record", "A5/A", *fake(at, DEAF), "--commit", "b11549",
                                             "--out", "a.json"), STARTS),
    "export": LongCommand(words("export", LONG_LINE, "--to", "curl", *MORE), JUDGED),
    "site (sources)": LongCommand(words(*SITE), "cachesim.pages.site.site_sources:drawn_scenarios", needs="sphinx"),
    "site (Sphinx)": LongCommand(words(*SITE), "sphinx.builders:Builder.read", needs="sphinx", begins=BUILD,
                                 bound=REMOVED),
    "site (pages)": LongCommand(words(*SITE), "sphinx.builders:Builder.write_documents", needs="sphinx", begins=BUILD,
                                bound=REMOVED),
}  # fmt: skip
"""Commands that take long. Commands that print lists end by themselves in less than a second."""


@contextmanager
def servers(argv: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    """Yield the command line with the URLs of servers in place of ``SILENT`` and ``ALIVE``."""
    with ExitStack() as stack:
        urls = {}
        if SILENT in argv:
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            urls[SILENT] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if ALIVE in argv:
            made = stack.enter_context(Server(("127.0.0.1", 0), type("Healthy", (Handler,), {"reply": {"at": -1}})))
            threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
            stack.callback(made.shutdown)
            urls[ALIVE] = f"http://127.0.0.1:{made.server_address[1]}"
        yield tuple(urls.get(word, word) if isinstance(word, str) else word for word in argv)


def measure(row: LongCommand, number: int, is_again: bool = False) -> Ending:
    """Start a command, send the signal while it works, and return how it ended. ``is_again``: send it twice."""
    with TemporaryDirectory(prefix="signals-") as name:
        folder = Path(name)
        mark = folder / "working"
        (inside := folder / "in").mkdir()
        with servers(row.argv(folder)) as argv:
            module = ("tests.faults.stopped", row.at, "main", 0)
            env = {"PYTHONPATH": str(TESTS.parent), MARK: str(mark)}
            victim = Victim(*argv, module=module, cwd=inside, env=env)
            wait(victim, mark.exists, row.begins)
            time.sleep(WORKING)
            if victim.process.poll() is not None:
                return Ending(None, victim.end().code, [])
            time_to_end = TimeToEnd(victim)
            victim.signal(number)
            is_first = True
            if is_again:
                wait(victim, lambda: False, AGAIN)
                is_first = victim.process.poll() is not None
                if not is_first:
                    time_to_end = TimeToEnd(victim)
                    victim.signal(number)
            seconds = time_to_end.measured()
            left = killed(victim)
            end = victim.end()
        code = end.code if end.code >= 0 else 128 - end.code             # as a shell reports it
        return Ending(seconds, code, list(wrong(row, end, inside, seconds, left, not is_first)), is_again and is_first)


class TimeToEnd:
    """Time from its creation to the end of a command, without the time in which its processes were ready and other
    processes had the cores. Made before a signal is sent."""

    def __init__(self, victim: Victim) -> None:
        self.victim = victim
        self.main, self.workers = victim.process.pid, victim.workers()
        self.before = {pid: ready(pid) for pid in (self.main, *self.workers)}
        self.waits = dict.fromkeys(self.before, 0.0)
        self.begin = time.monotonic()

    def measured(self) -> float:
        """Wait until the command has ended, at most ``GIVEN_UP``. Return its time [seconds]."""
        wait(self.victim, self._looked, GIVEN_UP)
        seconds = time.monotonic() - self.begin
        waits = self.waits[self.main] + max((self.waits[pid] for pid in self.workers), default=0.0)
        return max(0.0, seconds - waits)

    def _looked(self) -> bool:
        """Note how long each process has waited for a core. Return False: the command has not ended."""
        for pid, before in self.before.items():
            self.waits[pid] = max(self.waits[pid], ready(pid) - before)
        return False


def ready(pid: int) -> float:
    """Return for how long the main thread of a process was ready and had no core [seconds], 0.0 if it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    return 0.0


def killed(victim: Victim) -> int:
    """Kill the processes of a command that are still there a second after its end. Return how many there were."""
    gone = time.monotonic() + 1
    while marked(victim.mark) and time.monotonic() < gone:
        time.sleep(0.02)
    left = marked(victim.mark)
    for pid, _ in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def wrong(row: LongCommand, end: End, inside: Path, seconds: float, left: int, is_second: bool) -> Iterator[str]:
    """Yield what is wrong about the end of a command. ``is_second``: after a second signal, results are incomplete."""
    if seconds > (AT_ONCE if is_second else row.bound):
        yield f"it took {seconds:.1f} s"
    if left:
        yield f"{left} processes left"
    if "Traceback" in end.err or "Exception" in end.err:
        yield "traceback: " + " ".join(end.err.split())[-300:]
    if is_second:
        return
    if hidden := [path.name for path in inside.rglob(".*")]:
        yield f"{hidden} left"
    if row.keeps:
        yield from incomplete(end.out)
        if row.file and not (inside / row.file).exists():
            yield f"{row.file} was not written"


def incomplete(out: str) -> list[str]:
    """Return what is wrong about the results that a command has printed, as JSON."""
    try:
        data: Any = json.loads(out.splitlines()[-1] if out else "")
    except ValueError:
        return [f"not JSON: {out[-100:]!r}"]
    return ["no results"] if "error" in data else []


def wait(victim: Victim, until: Callable[[], bool], seconds: float) -> None:
    """Wait until something holds or the command has ended, at most so long."""
    end = time.monotonic() + seconds
    while victim.process.poll() is None and not until() and time.monotonic() < end:
        time.sleep(0.01)


def expected(cell: Ending, number: int) -> list[str]:
    """Return what is wrong about an exit code."""
    if cell.seconds is None or cell.code == 128 + number:
        return []
    return [f"exit code {cell.code} instead of {128 + number}"]


def table(names: list[str]) -> Iterator[str]:
    """Yield the lines of a Markdown table: seconds from the signal to the end, and exit codes."""
    heads = [*SIGNALS, *(f"second {name}" for name in SIGNALS)]
    yield f"| command | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for name, row in LONG.items():
        if names and name.partition(" ")[0] not in names and name not in names:
            continue
        if row.missing:
            yield f"| {name} | {' | '.join([row.missing] * len(heads))} |"
            continue
        cells = []
        for is_again in (False, True):
            for number in SIGNALS.values():
                cell = measure(row, number, is_again)
                cells.append(cell._replace(wrong=[*cell.wrong, *expected(cell, number)]))
        yield f"| {name} | {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
