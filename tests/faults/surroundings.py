"""Faults of what surrounds a command: a rotated log, a clock that jumps, another process, a cluster. They join those of
`table`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Iterator

from cachesim.base import exits
from tests.faults.commands import session
from tests.faults.table import SEARCH, SHORT, Ground, fault, undisturbed
from tests.faults.victim import Victim
from tests.shared import ROOT

LOG = ROOT / "tests/unit/tools/server_logs/verbosity_4.log"
CLUSTER = find_spec("distributed") is not None
READ = 0.7          # seconds in which a follower has read what a log contains
PARTS = 6           # parts in which a log is written
BOUND = 3.0         # seconds in which a command leaves a cluster that does not answer
BUILD = 900.0       # seconds that a build of the site may take


@fault("a followed log is rotated while lines arrive")
def rotated(ground: Ground) -> Any:
    lines = LOG.read_text().splitlines(keepends=True)
    log = ground.folder / "server.log"
    log.write_text("")
    victim = Victim("watch", log, "--json", env={"PYTHONUNBUFFERED": "1"})
    time.sleep(2)
    size = len(lines) // PARTS + 1
    for number, first in enumerate(range(0, len(lines), size)):
        if number == PARTS // 2:
            log.rename(ground.folder / "server.log.1")
        with log.open("a") as stream:
            stream.writelines(lines[first : first + size])
        time.sleep(READ)
    end = victim.signal(signal.SIGINT).end()
    whole = _rows(Victim("watch", "--once", LOG, "--json").end().out)
    ground.expect("rows", _rows(end.out), whole)
    return [end], [exits.INTERRUPTED], f"{len(whole)} rows"


def _rows(out: str) -> list[Any]:
    """Return the task of each row that `watch` has printed."""
    data = [json.loads(line) for line in out.splitlines()]
    return [row["request"]["task"] for row in data if "request" in row]


@fault("a clock that jumps")
def jumping(ground: Ground) -> Any:
    module = ("tests.faults.jumping_clock",)
    env = {"PYTHONPATH": str(ROOT)}
    ends = [Victim(*SEARCH, *SHORT, "--out", ground.folder, module=module, env=env).end(),
            Victim("watch", "--once", LOG, "--json", module=module, env=env).end()]  # fmt: skip
    ground.expect("findings", json.loads(ends[0].out)["failures"], undisturbed(*SEARCH, *SHORT)["failures"])
    ground.expect("rows", _rows(ends[1].out), _rows(Victim("watch", "--once", LOG, "--json").end().out))
    code = exits.BROKEN if undisturbed(*SEARCH, *SHORT)["failures"] else exits.HOLDS
    return ends, [code, exits.HOLDS], "all"


@fault("two workloads into one folder")
def two_workloads(ground: Ground) -> Any:
    sessions = session(ground.folder)
    out = ground.folder / "lines"
    line = ("workload", sessions, "--detail", "counts", "--json")
    victims = [Victim(*line, "--out", out) for _ in range(2)]
    ends = [victim.end() for victim in victims]
    again = Victim(*line, "--out", out, "--resume").end()
    whole = undisturbed(*line)
    ground.expect("one of them is refused", sorted(end.code for end in ends), [exits.HOLDS, exits.BAD_INPUT])
    ground.expect("results", json.loads(again.out)["lines"], whole["lines"])
    return [again], [exits.HOLDS], "all; the second is refused"


@contextmanager
def cluster() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the address of a scheduler with two workers, and its process, in whose group the workers are."""
    program = ("import sys\nfrom distributed import LocalCluster\n"
               "if __name__ == '__main__':\n"
               "    with LocalCluster(n_workers=2, threads_per_worker=1, host='127.0.0.1', dashboard_address=None,\n"
               "                      silence_logs=50) as cluster:\n"
               "        pids = [worker.pid for worker in cluster.workers.values()]\n"
               "        print(cluster.scheduler_address, *pids, flush=True)\n"
               "        sys.stdin.read()\n")  # fmt: skip
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with TemporaryDirectory() as folder, suppress(ProcessLookupError):
        file = Path(folder) / "cluster.py"
        file.write_text(program)
        process = subprocess.Popen([sys.executable, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, start_new_session=True, env=env)  # fmt: skip
        try:
            assert process.stdout is not None
            address = process.stdout.readline()
            yield address.replace("tcp://", "dask://"), process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdin, process.stdout):
                stream.close()


@fault("a Dask worker is killed")
def dead_worker(ground: Ground) -> Any:
    with cluster() as (line, _):
        address, *pids = line.split()
        victim = Victim(*SEARCH, *SHORT, "--on", address, "--out", ground.folder).until("written")
        os.kill(int(pids[0]), signal.SIGKILL)
        end = victim.end()
    ground.expect("findings", json.loads(end.out)["failures"], undisturbed(*SEARCH, *SHORT)["failures"])
    return [end], [exits.BROKEN], ground.told(end)


@fault("Ctrl-C while a Dask cluster hangs")
def hanging_cluster(ground: Ground) -> Any:
    with cluster() as (line, process):
        address = line.split()[0]
        victim = Victim(*SEARCH, "--examples", 100_000, "--on", address, "--out", ground.folder).until("written")
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(1)
        begin = time.monotonic()
        end = victim.signal(signal.SIGINT).end()
        ground.expect("in time", time.monotonic() - begin < BOUND, True)
    return [end], [exits.INTERRUPTED], ground.told(end)


@fault("a Dask worker with other code")
def other_code(ground: Ground) -> Any:
    with cluster() as (line, _):
        address = line.split()[0]
        copy = ground.folder / "copy"
        (copy / "cachesim").mkdir(parents=True)
        subprocess.run(["cp", "-a", f"{ROOT}/cachesim/.", copy / "cachesim"], check=True)
        changed = copy / "cachesim/base/exits.py"
        changed.write_text(changed.read_text() + "OTHER = 1\n")
        env = {"PYTHONPATH": str(copy), "PYTHONSAFEPATH": "1"}
        end = Victim(*SEARCH, *SHORT, "--on", address, env=env, cwd=copy).end()
    ground.expect("told", "version" in end.err and end.err.count("\n") < 3, True)
    return [end], [exits.BAD_INPUT], "refused"


def site(ground: Ground, out: Path, before: tuple[object, ...] = ()) -> Any:
    """Build the site where it cannot be written."""
    end = Victim("--out", out, "-j", 2, module=("cachesim.pages.site",), before=before, cwd=ROOT).end(BUILD)
    ground.expect("stderr", end.err.count("\n"), 1)
    return [end], [exits.BAD_INPUT], "refused"


def on_disk(ground: Ground, options: str) -> Any:
    """Build the site on a disk that only the builder sees."""
    (disk := ground.folder / "disk").mkdir()
    mount = 'mount -t tmpfs -o "$1" none "$2" || exit 99; shift 2; "$@"'
    return site(ground, disk / "site", ("unshare", "-rm", "/bin/sh", "-c", mount, "sh", options, disk))


@fault("the site into a read-only folder")
def read_only_site(ground: Ground) -> Any:
    return on_disk(ground, "ro")


@fault("the site on a full disk: its sources")
def site_on_full_disk(ground: Ground) -> Any:
    return on_disk(ground, "size=3m")


@fault("the site on a full disk: its pages")
def pages_on_full_disk(ground: Ground) -> Any:
    return on_disk(ground, "size=80m")


@fault("a file in the place of the site")
def file_in_place(ground: Ground) -> Any:
    (file := ground.folder / "site").write_text("mine\n")
    found = site(ground, file)
    ground.expect("file", file.read_text(), "mine\n")
    return found


@fault("a file in the place of the folder above the site")
def file_above(ground: Ground) -> Any:
    (file := ground.folder / "build").write_text("mine\n")
    return site(ground, file / "site")


SITE_FAULTS = ("the site into a read-only folder", "the site on a full disk: its sources",
               "the site on a full disk: its pages", "a file in the place of the site",
               "a file in the place of the folder above the site")  # fmt: skip
CLUSTER_FAULTS = ("a Dask worker is killed", "Ctrl-C while a Dask cluster hangs", "a Dask worker with other code")


def missing(name: str) -> str:
    """Return why a fault cannot be injected here, "" if it can."""
    if name in SITE_FAULTS and find_spec("sphinx") is None:
        return "sphinx is not installed"
    if ("disk" in name or "read-only" in name) and subprocess.run(["unshare", "-rm", "true"], check=False).returncode:
        return "needs a separate mount namespace for a small disk"
    return "distributed is not installed" if name in CLUSTER_FAULTS and not CLUSTER else ""
