"""Child process of a mutant: forked from a process that has everything imported, limited, and watched.

CPU: the kernel ends the child a second after the limit. Memory: the peak resident memory is read at the end, minus the
memory inherited from the parent (a test suite may hold more than the limit). The address space limit is much higher and
only protects the machine. Wall clock: an alarm ends a child that waits. CPU and memory include the child's own
children. A process that it leaves running becomes a child of this process (Linux); it is killed and reported.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import mmap
import os
import resource
import signal
import sys
import time
import traceback
import unicodedata
import warnings
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from tests.hostile.mutant import CLI
from tests.shared import ROOT

CPU, MIB = 10, 512           # limits of a mutant: CPU seconds; MiB besides the interpreter with all imports
SPACE = 1 << 30              # address space [bytes], besides the interpreter with all imports
CRASHED = 71                 # exit code after an exception that nothing caught
WALL = 300                   # seconds; high, because the machine may be busy
NOBODY, PROCESSES = 65534, 200
OUTPUT = 64 << 20            # bytes of a file that it writes, at most
KEPT = 20_000                # bytes of stdout and of stderr that are checked
SUBREAPER = 36               # PR_SET_CHILD_SUBREAPER, Linux <sys/prctl.h>
LATE = (
    "rich.console", "rich.table", "rich.progress", "numpy", "tomllib", "concurrent.futures.process",
    "concurrent.futures.thread", "encodings.cp437", "encodings.idna", "encodings.latin_1", "encodings.unicode_escape",
    "encodings.utf_16", "encodings.utf_8_sig", "html.parser", "http.client", "importlib.readers",
    "jinja2.constants", "jinja2.debug",
    "jinja2.ext", "jinja2.sandbox", "multiprocessing.popen_fork", "multiprocessing.queues",
    "multiprocessing.synchronize", "pdb", "pprint", "pytest",
    "tests.hostile.readers", "tokenizers", "xml.etree.ElementTree",
)  # fmt: skip
"""Modules that are imported late, when the child can no longer read them."""


@dataclass(frozen=True)
class Ended:
    """End of a mutant."""

    code: int                        # exit code, negative = a signal
    cpu: float                       # CPU seconds
    mib: float                       # peak memory [MiB]
    stdout: int                      # bytes
    stderr: str
    parsed: bool                     # its parser returned
    left: tuple[str, ...] = ()       # files that it created
    running: int = 0                 # processes that it left running
    lines: int = 1                   # error lines allowed, see Mutant
    raw: str = ""                    # control characters on stdout and stderr


@cache
def prepare():
    """Import everything that a command may import, so that children need not."""
    for path in sorted((ROOT / "cachesim").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if "_corpus" not in name and not name.endswith("__main__"):
            with suppress(ImportError):          # an extra that is not installed
                importlib.import_module(name)
    for name in LATE:
        with suppress(ImportError):
            importlib.import_module(name)
    adopt_orphans()
    gc.collect()
    gc.freeze()                  # a collection in a child would copy all pages


def adopt_orphans():
    """Make this process the parent of processes that its children leave running. A forked process must ask anew."""
    with suppress(AttributeError, OSError):      # not on other systems than Linux
        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def forked():
    """Return os.fork() without Python's warning about threads of the parent, which the child does not need."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def run(mutant, parser=None, plant=None, cpu=CPU):
    """Run a mutant and return its end. ``parser``: module and name of the function whose return marks the input as
    parsed. ``plant`` is called before the command."""
    folder = Path(mkdtemp(prefix="hostile-"))
    try:
        inside, temp = folder / "in", folder / "tmp"
        inside.mkdir()
        temp.mkdir()
        write_files(mutant, inside)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o777)
        flag = mmap.mmap(-1, 1)
        with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
            before, known = resident(), children()
            pid = forked()
            if pid == 0:
                _child(mutant, (inside, temp), (out, err), (parser, plant, cpu), flag)
            _, status, used = os.wait4(pid, 0)
            running, later = end_rest(pid, known)
            return ended(
                mutant,
                (inside, temp),
                (out, err),
                code=os.waitstatus_to_exitcode(status),
                cpu=used.ru_utime + used.ru_stime + later,
                mib=max(0, used.ru_maxrss / 1024 - before),
                parsed=bool(flag[0]),
                running=running,
            )
    finally:
        rmtree(folder, ignore_errors=True)


def write_files(mutant, folder):
    """Write the files of a mutant into a folder."""
    for name, data in mutant.files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)


def ended(mutant, folders, streams, **measured):
    """Return the end of a mutant from its two folders, its two streams and the measured numbers."""
    inside, temp = folders
    stdout, stderr = map(_kept, streams)
    return Ended(
        **measured,
        stdout=os.fstat(streams[0].fileno()).st_size,
        stderr=stderr,
        left=tuple(sorted(_left(inside, (*mutant.files, *mutant.made)) + _left(temp))),
        lines=mutant.lines,
        raw="".join(sorted({sign for sign in stdout + stderr if _control(sign)})),
    )


def resident():
    """Return the resident memory of this process [MiB], 0 if unknown."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * resource.getpagesize() / (1 << 20) if file.exists() else 0


def children():
    """Return the ids of the child processes of this process, none if unknown."""
    found = set()
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, thread.read_text().split()))
    return found


def _control(sign):
    """True if a character controls a terminal."""
    return unicodedata.category(sign) == "Cc" and sign not in "\t\n"


def _kept(stream):
    """Return beginning and end of a file as text."""
    stream.seek(0)
    if os.fstat(stream.fileno()).st_size <= KEPT:
        return stream.read().decode("utf-8", "backslashreplace")
    head = stream.read(KEPT // 2)
    stream.seek(-KEPT // 2, os.SEEK_END)
    return (head + b"\n...\n" + stream.read()).decode("utf-8", "backslashreplace")


def _left(folder, known=()):
    names = [str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()]
    return [name for name in names if not any(fnmatchcase(name, one) for one in known)]


def end_rest(pid, known):
    """Return 1 if processes of the group, or orphans, are still running after three seconds, and kill them; else 0.
    Also return the CPU seconds of orphans. ``known``: children of this process that the mutant did not start."""
    seconds = 0.0
    for last in [False] * 60 + [True]:
        orphans = children() - known
        for orphan in orphans:
            if last:
                with suppress(OSError):
                    os.kill(orphan, signal.SIGKILL)
            found, _, used = os.wait4(orphan, 0 if last else os.WNOHANG)
            seconds += used.ru_utime + used.ru_stime if found else 0
        try:
            os.killpg(pid, signal.SIGKILL if last else 0)
        except OSError:
            if not orphans:
                return 0, seconds
        time.sleep(0.05)
    return 1, seconds


def _child(mutant, folders, streams, how, flag):
    code = CRASHED
    try:
        parser, plant, cpu = how
        bind()
        limit_cpu(cpu)
        enter(folders, streams)
        if plant is not None:
            plant()
        if parser is not None:
            watch(*parser, flag)
        code = code_of(mutant)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def bind():
    """Give this process a session, few rights, and the limits that hold for all its mutants."""
    gc.set_threshold(700, 10, 10)                # that of a process of its own; tests/conftest.py raises it
    os.setsid()
    if os.geteuid() == 0 and _reached():         # the system then prevents writes outside of its folders
        resource.setrlimit(resource.RLIMIT_NPROC, (PROCESSES, PROCESSES))
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if os.path.exists("/proc/self/statm") else 0
    for kind, limit in (
        (resource.RLIMIT_FSIZE, OUTPUT),
        (resource.RLIMIT_CORE, 0),
        *([(resource.RLIMIT_AS, pages * resource.getpagesize() + SPACE)] if pages else ()),
    ):
        resource.setrlimit(kind, (limit, limit))


def limit_cpu(seconds):
    """Let the kernel end this process about a second after so many more CPU seconds, and after WALL seconds."""
    for number in (signal.SIGALRM, signal.SIGXCPU, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.alarm(WALL)
    used = int(time.process_time())
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (used + seconds + 1, hard))


def enter(folders, streams):
    """Work in these folders from now on, and print to these streams."""
    inside, temp = folders
    os.chdir(inside)
    os.environ.update(TMPDIR=str(temp), HOME=str(temp), COLUMNS="100")
    import tempfile

    tempfile.tempdir = None
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    for number, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), number)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(n, "wb", closefd=False)), "utf-8") if n else
        io.TextIOWrapper(io.BufferedReader(io.FileIO(n, closefd=False)))
        for n in (0, 1, 2)
    )  # fmt: skip
    warnings.resetwarnings()
    warnings.simplefilter("default")


def _reached():
    """True if every user can read the source tree, which the child needs when it runs as nobody (uid 65534)."""
    return all(folder.stat().st_mode & 0o001 for folder in (ROOT, *ROOT.parents))


def watch(module, name, flag):
    """Set the flag when the function returns."""
    place = importlib.import_module(module)
    for part in name.split(".")[:-1]:
        place = getattr(place, part)
    name = name.rpartition(".")[2]
    function = getattr(place, name)

    def watched(*args, **options):
        found = function(*args, **options)
        flag[0] = 1
        return found

    setattr(place, name, watched)


def code_of(mutant):
    """Run a mutant in this process and return its exit code."""
    from tests.hostile.forked_parser import fork_parsers

    fork_parsers()
    if mutant.given_to != CLI:
        from tests.hostile.readers import READERS

        return READERS[mutant.given_to](mutant)
    from cachesim.cli.main import main

    try:
        return main(list(mutant.argv))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
