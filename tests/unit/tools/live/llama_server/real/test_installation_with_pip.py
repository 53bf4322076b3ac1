"""Tests of the installation with the real venv and pip: no index, no wheel for this platform, and an interrupt.

Nothing is downloaded: the index is a closed port, a folder, or a server of this test that never answers.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from cachesim.base import exits

pytestmark = pytest.mark.long
PROGRAM = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from cachesim.cli.main import main
sys.exit(main(["real", "install", "b11549"]))
"""
HERE = "127.0.0.1"


@pytest.fixture
def installer(tmp_path):
    """Return a function that starts ``cachesim real install b11549`` with an index, in a process group of its own."""

    def start(**index):
        env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        env |= {"XDG_CACHE_HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull, **index}
        return subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stderr=subprocess.PIPE, text=True,
                                start_new_session=True)  # fmt: skip

    return start


def left(tmp_path):
    """Return the names below the folder of the environments, apart from the lock."""
    return sorted(path.name for path in (tmp_path / "cachesim" / "real").iterdir() if not path.name.endswith(".lock"))


def reason(process):
    """Return the last line of a process that ended with exit code 2."""
    said = process.communicate(timeout=120)[1]
    assert process.returncode == exits.BAD_INPUT and "Traceback" not in said
    return said.splitlines()[-1]


def test_without_network(installer, tmp_path):
    with socket.create_server((HERE, 0)) as closed:
        port = closed.getsockname()[1]
    process = installer(PIP_INDEX_URL=f"http://{HERE}:{port}/simple")
    assert reason(process).endswith("was not installed: the package index cannot be reached")
    assert left(tmp_path) == []


def test_without_a_wheel_for_this_platform(installer, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    (links / "xllamacpp-2026.10.11549-cp311-cp311-win_amd64.whl").write_bytes(b"")
    process = installer(PIP_NO_INDEX="1", PIP_FIND_LINKS=str(links))
    assert "the index has no wheel of it for " in reason(process)
    assert left(tmp_path) == []


def test_an_interrupt_while_pip_waits_ends_pip_and_leaves_nothing(installer, tmp_path):
    with socket.create_server((HERE, 0)) as index:
        process = installer(PIP_INDEX_URL=f"http://{HERE}:{index.getsockname()[1]}/simple")
        index.settimeout(120)
        waiting, _ = index.accept()                      # pip is connected and waits for an answer
        with waiting:
            os.killpg(process.pid, signal.SIGINT)
            said = process.communicate(timeout=120)[1]
            waiting.settimeout(120)
            with suppress(ConnectionResetError):         # its request, then the end of the connection: pip has ended
                while waiting.recv(4096):
                    pass
    assert process.returncode == 128 + signal.SIGINT
    assert said.splitlines()[-1] == "cachesim: interrupted: b11549 was not installed"
    assert left(tmp_path) == []
