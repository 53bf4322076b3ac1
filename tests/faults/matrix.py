"""Faults in every command: a function for each fault, which returns the exit codes and the unexpected results.

The expected result is always: the exit code of the fault, at most one line on stderr besides notes about written files,
complete files or none, and no process left.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, Callable, Iterator, NamedTuple

from cachesim.base import exits
from tests.faults.commands import OUTPUT, TABLE, TESTS, Command
from tests.faults.stopped import MARK
from tests.faults.victim import End, Victim, marked
from tests.hostile.http_server import URL, Handler, Server

WRITE = "os:replace,os:link"             # places where a complete file gets its name
_NOTE = re.compile(
    r"cachesim: (wrote .*|.* written|.* written in place of .*|.*; this check overwrites what it has cached|"
    r".*, which clears a slot)"
)
ENDED = 3.0                              # seconds in which a killed command's server must have ended


class Cell(NamedTuple):
    """Result of a fault in a command. ``reason``: why it does not apply, "" if it was injected."""

    codes: list[int]
    wrong: list[str]
    reason: str = ""

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        return ", ".join(map(str, self.codes)) + "".join(f" WRONG {one}" for one in self.wrong)


class Bench:
    """A command in a folder, with the results of its runs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.row: Command = TABLE[name]
        self.out = folder / "out"
        self.out.mkdir()
        self.mark = folder / "stopped"
        self.folder = folder
        self.argv = self.row.argv(folder)
        self.codes: list[int] = []
        self.wrong: list[str] = []

    def run(self, code: int | None, *more: object, file: bool = True, out: Path | None = None, **how: Any) -> End:
        """Run the command and check how it ends. ``code``: the expected exit code, None = like undisturbed."""
        written = (self.row.out[0], (out or self.out) / self.row.out[1]) if file and self.row.out else ()
        env = {"PYTHONPATH": str(TESTS.parent), **how.pop("env", {})}
        with _served(self.argv) as argv:
            victim = Victim(*argv, *written, *more, "-q", env=env, cwd=self.folder, **how)
            end = victim.end()
        code = self.row.code if code is None else code
        self.codes.append(end.code)
        lines = [line for line in end.err.splitlines() if not _NOTE.fullmatch(line)]
        self.expect(end.code == code, f"exit code {end.code} instead of {code}: {end.err[-200:]}")
        self.expect(_gone(victim), f"{end.left} processes left")
        self.expect(len(lines) <= 1 and "Traceback" not in end.err, f"{len(lines)} lines on stderr: {end.err[-300:]}")
        return end

    def stopped(self, places: str, who: str, number: int, code: int | None, **how: Any) -> End:
        """Run the command with a signal at these places."""
        self.mark.unlink(missing_ok=True)
        module = ("tests.faults.stopped", places, who, int(number))
        end = self.run(code, module=module, env={MARK: str(self.mark)}, **how)
        self.expect(self.mark.exists(), f"{places} was not reached")
        return end

    def expect(self, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(" ".join(what.split())[:300])

    def whole(self, rests: bool = False) -> list[str]:
        """Return the names of the written files, after a check that they are complete. ``rests``: hidden files may
        remain."""
        names = []
        for file in sorted(path for path in self.out.rglob("*") if path.is_file()):
            if file.name.startswith("."):
                self.expect(rests, f"{file.name} left")
                continue
            names.append(file.name)
            data = file.read_bytes()
            self.expect(data.endswith((b"\n", b">", b"}")), f"{file.name} is not complete")
            if file.suffix == ".json":
                json.loads(data)
        return names


def _gone(victim: Victim) -> bool:
    """True if all processes of a command have ended, those of a killed one after a while."""
    end = time.monotonic() + ENDED
    while marked(victim.mark):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def _served(argv: tuple[object, ...]) -> Iterator[tuple[object, ...]]:
    """Yield the command line with the URL of a server that answers like a llama-server."""
    if URL not in argv:
        yield argv
        return
    with Server(("127.0.0.1", 0), type("Healthy", (Handler,), {"reply": {"at": -1}})) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield tuple(f"http://127.0.0.1:{server.server_address[1]}" if word == URL else word for word in argv)
        server.shutdown()


def interrupted(bench: Bench, number: int = signal.SIGINT, code: int = exits.INTERRUPTED) -> None:
    """Send a signal during the work, before the output, and before a file gets its name."""
    for place in _places(bench.row, OUTPUT):
        bench.stopped(place, "main", number, code, file=place != OUTPUT)
        found = bench.whole()
        bench.expect(bench.row.keeps or not found, f"{found} written at {place}")
        rmtree(bench.out)
        bench.out.mkdir()


def _places(row: Command, *more: str) -> list[str]:
    """Return where to disturb a command: in its work, and before a file gets its name."""
    return list(dict.fromkeys([row.work, *more, *([WRITE] if row.out else [])]))


def terminated(bench: Bench) -> None:
    """Send SIGTERM like Ctrl-C."""
    interrupted(bench, signal.SIGTERM, 128 + signal.SIGTERM)


def killed(bench: Bench) -> None:
    """Kill the main process during its work, and before a file gets its name."""
    for place in _places(bench.row):
        bench.stopped(place, "main", signal.SIGKILL, -signal.SIGKILL, file=place != OUTPUT)
        bench.whole(rests=True)
    if bench.row.resumes:
        first = bench.run(None, "--resume")
        fresh = bench.folder / "fresh"
        fresh.mkdir()
        again = bench.run(None, out=fresh)
        bench.expect(_results(first) == _results(again), "resumed results differ")


def _results(end: End) -> Any:
    """Return the JSON on stdout without the paths of files."""
    return json.loads(re.sub(r'"[^"]*/(?:out|fresh)/', '"', end.out))


def bereft(bench: Bench) -> str:
    """Kill a worker, or a program that the command has started."""
    row = bench.row
    if " " in row.worker:
        return row.worker
    code = row.code if row.bereft is None else row.bereft
    bench.stopped(row.child or row.worker, "child" if row.child else "worker", signal.SIGKILL, code)
    bench.whole()
    return ""


DISK = """mount -t tmpfs -o "$1" none "$2" || exit 99
disk=$2; keep=$3; shift 3
[ -w "$disk" ] && dd if=/dev/zero of="$disk"/filler bs=1k count=24 2>/dev/null
"$@"; code=$?
rm -f "$disk"/filler
cp -a "$disk"/. "$keep"
exit $code"""


def _disk(bench: Bench, options: str) -> None:
    """Run the command with its output on a disk that only it sees."""
    (disk := bench.folder / "disk").mkdir()
    before = ("unshare", "-rm", "/bin/sh", "-c", DISK, "sh", options, disk, bench.out)
    bench.run(exits.BAD_INPUT, out=disk, before=before)
    names = [path.name for path in bench.out.rglob("*") if path.is_file() and path.stat().st_size]
    bench.expect(not names, f"{names} left")


def full(bench: Bench) -> None:
    """Run with its output on a full disk, and with stdout on a full device."""
    if bench.row.out:
        _disk(bench, "size=24k")
    with open("/dev/full", "w") as device:
        bench.run(exits.BAD_INPUT, file=False, stdout=device.fileno())


def read_only(bench: Bench) -> str:
    """Run with its output in a folder that cannot be written."""
    if not bench.row.out:
        return "writes no file"
    _disk(bench, "ro")
    return ""


def closed(bench: Bench) -> None:
    """Run with stdout closed, and with a pipe that has no reader."""
    bench.run(exits.BAD_INPUT, preexec_fn=lambda: os.close(1))
    bench.expect(not bench.whole(), "files written")
    read, write = os.pipe()
    os.close(read)
    end = bench.run(bench.row.closed, file=False, stdout=write)
    os.close(write)
    bench.expect(all(map(_NOTE.fullmatch, end.err.splitlines())), f"stderr: {end.err[-200:]}")


FAULTS: dict[str, Callable[[Bench], str | None]] = {
    "SIGINT": interrupted, "SIGTERM": terminated, "SIGKILL": killed, "SIGKILL of a worker": bereft, "full disk": full,
    "read-only folder": read_only, "closed stdout": closed,
}  # fmt: skip
NEEDS_DISK = ("full disk", "read-only folder")


def possible(fault: str) -> str:
    """Return why a fault cannot be injected here, "" if it can."""
    if fault in NEEDS_DISK and subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        return "needs a separate mount namespace for a small disk"
    return ""


def inject(name: str, fault: str) -> Cell:
    """Inject a fault into a command."""
    with TemporaryDirectory(prefix="faults-") as folder:
        bench = Bench(name, Path(folder))
        reason = FAULTS[fault](bench) or ""
        return Cell(bench.codes, bench.wrong, reason)


def markdown(names: list[str], faults: list[str]) -> Iterator[str]:
    """Yield the lines of a Markdown table as its cells are known: exit codes, or why a fault does not apply."""
    yield f"| command | {' | '.join(faults)} |"
    yield "|---" * (len(faults) + 1) + "|"
    for name in names:
        yield f"| {name} | {' | '.join(str(inject(name, fault)).replace('|', '/') for fault in faults)} |"
