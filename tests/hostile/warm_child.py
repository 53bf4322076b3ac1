"""Child process that runs many mutants of a kind, one after the other, after a single fork.

A command finds its modules' caches filled by those before it, which takes a third of the CPU time. This process is a
filter: a mutant with any finding, and one in which the process ended, runs again in a process of its own, whose end
counts. CPU time is measured per mutant, memory as the peak of the process since its start.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

from tests.hostile import child, judged
from tests.hostile.child import CPU, CRASHED, Ended

TOGETHER = 40  # mutants per process


def run_all(mutants, parser=None, together=True):
    """Run mutants of one kind, with ``together`` several in a process. Yield a pair for each: its end, and its
    findings that only the shared process has."""
    left = list(mutants)
    if not together:
        yield from ((child.run(mutant, parser), []) for mutant in left)
        return
    while left:
        ends = _run_in_child(left[:TOGETHER], parser)
        for mutant, end in zip(left, ends, strict=False):
            yield _confirmed(mutant, end, parser)
        if len(ends) < len(left[:TOGETHER]):  # the process ended in the next one
            yield child.run(left[len(ends)], parser), []
            ends.append(None)
        left = left[len(ends) :]


def _confirmed(mutant, end, parser):
    """Return the end of a mutant, that in a process of its own if this end has findings."""
    found = judged.findings(end)
    if not found:
        return end, []
    alone = child.run(mutant, parser)
    known = judged.findings(alone)
    return alone, [what for what in found if what not in known]


def _run_in_child(mutants, parser):
    """Return the ends of mutants up to the one in which the process ended. If the process needed too much memory or
    left a process, return none, so that its first mutant is run alone."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    folder.chmod(0o777)
    try:
        with open(folder / "ends", "w+b") as ends:
            known, before = child.children(), child.resident()
            pid = child.forked()
            if pid == 0:
                _work(mutants, parser, folder, before, ends)
            os.wait4(pid, 0)
            running, _ = child.end_rest(pid, known)
            ends.seek(0)
            lines = [line for line in ends if line.endswith(b"\n")]
        return [] if running else [_read(line) for line in lines]
    finally:
        rmtree(folder, ignore_errors=True)


def _read(line):
    """Return the end in a line."""
    fields = json.loads(line)
    return Ended(**{**fields, "left": tuple(fields["left"])})


def _work(mutants, parser, folder, before, ends):
    """Run the mutants in this process, write a line for the end of each, and end the process."""
    try:
        child.bind()
        flag = mmap.mmap(-1, 1)
        if parser is not None:
            child.watch(*parser, flag)
        environment = dict(os.environ)
        for number, mutant in enumerate(mutants):
            os.environ.clear()
            os.environ.update(environment)
            end = _end_of(mutant, folder / str(number), flag, before)
            os.write(ends.fileno(), json.dumps(vars(end)).encode("ascii") + b"\n")
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _end_of(mutant, folder, flag, before):
    """Run a mutant in this process and return its end. ``before``: resident memory of the parent [MiB]."""
    inside, temp = folder / "in", folder / "tmp"
    for path in (folder, inside, temp):
        path.mkdir()
    child.write_files(mutant, inside)
    flag[0] = 0
    with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
        spent = _cpu_seconds()
        child.limit_cpu(CPU)
        child.enter((inside, temp), (out, err))
        code = CRASHED
        try:
            code = child.code_of(mutant)
        except BaseException:
            traceback.print_exc()
        with suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        end = child.ended(
            mutant,
            (inside, temp),
            (out, err),
            code=code,
            cpu=_cpu_seconds() - spent,
            mib=max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before),
            parsed=bool(flag[0]),
            running=len(child.children()),
        )
    rmtree(folder, ignore_errors=True)
    return end


def _cpu_seconds():
    """Return the CPU seconds of this process and of its children that have ended."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime
