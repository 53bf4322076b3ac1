"""The builder of the site ends with its processes. It runs as an own process here, with a few pages."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.faults.table import possible
from tests.shared import ROOT

pytestmark = pytest.mark.skipif(
    bool(possible()) or find_spec("sphinx") is None, reason="Sphinx is not installed, or this system has no /proc"
)
PAGES = 40
WAITING = """
import os, pathlib, time
def wait(app, name, source):
    if name != "index":
        (pathlib.Path(app.srcdir).parent / f"reading-{os.getpid()}").touch()
        time.sleep(600)
def setup(app):
    app.connect("source-read", wait)
"""
"""Settings whose pages take long to read."""

INTERRUPTED = """
def interrupt(app, name, source):
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise KeyError(2)
def setup(app):
    app.connect("source-read", interrupt)
"""
"""Settings under which Sphinx fails because of an interrupt."""

BUILDER = """
import sys
from pathlib import Path
from cachesim.base.ending import ended_by_signals
from cachesim.pages.site.__main__ import run_sphinx
sources = Path(sys.argv[1])
try:
    with ended_by_signals():
        run_sphinx(sources, sources.parent / "site", sources.parent / "doctrees", int(sys.argv[2]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.stdin.readline()
"""


def begun(folder: Path, settings: str, jobs: int) -> subprocess.Popen[str]:
    """Start a builder of a small site in a folder. After an interrupt it waits for a line."""
    sources = folder / "sources"
    sources.mkdir()
    (sources / "conf.py").write_text(settings)
    (sources / "index.rst").write_text("Index\n=====\n\n.. toctree::\n   :glob:\n\n   page*\n")
    for number in range(PAGES):
        (sources / f"page{number}.rst").write_text(f"Page {number}\n=========\n\nText.\n")
    return subprocess.Popen([sys.executable, "-c", BUILDER, sources, str(jobs)], cwd=ROOT, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip


def readers(folder: Path) -> list[int]:
    """Return the processes that read pages."""
    return [int(file.name.partition("-")[2]) for file in folder.glob("reading-*")]


def wait_until(holds) -> None:
    end = time.monotonic() + 20
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)


def living(folder: Path) -> list[int]:
    """Return the processes that read pages and have not ended."""
    return [pid for pid in readers(folder) if Path(f"/proc/{pid}").exists()]


@pytest.mark.long
@pytest.mark.parametrize("how", ["signal", "second signal", "killed"])
def test_no_process_outlives_the_builder(tmp_path, how):
    with begun(tmp_path, WAITING, jobs=3) as builder:
        wait_until(lambda: len(readers(tmp_path)) > 1)
        builder.send_signal(signal.SIGKILL if how == "killed" else signal.SIGTERM)
        if how != "killed":
            assert builder.stdout.readline() == "interrupted\n"
        if how == "second signal":
            time.sleep(0.2)                       # an earlier one counts as the first
            builder.send_signal(signal.SIGTERM)
        elif how == "signal":
            builder.stdin.close()
        builder.wait(60)
        wait_until(lambda: not living(tmp_path))
        assert len(readers(tmp_path)) > 1 and living(tmp_path) == []


@pytest.mark.long
def test_an_interrupt_that_sphinx_turns_into_an_error_is_an_interrupt(tmp_path):
    with begun(tmp_path, INTERRUPTED, jobs=1) as builder:
        found = builder.communicate("\n", timeout=60)
    assert found == ("interrupted\n", "")
