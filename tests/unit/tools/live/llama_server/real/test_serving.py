"""A real server that runs until the user ends it, without a real server."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.real import serving
from cachesim.tools.live.llama_server.real.serving import Serving, _port_in

REAL = SimpleNamespace(binary=Path("/bin/llama-server"))


@pytest.mark.parametrize(("flags", "port"), [
    ([], 0), (["-np", "1"], 0), (["--port", "8080"], 8080), (["-c", "9", "--port", "1", "-np", "1"], 1),
    (["--port", "65535"], 65535), (["--port"], 0),
])  # fmt: skip
def test_the_port_of_the_flags(flags, port):
    assert _port_in(flags) == port


@pytest.mark.parametrize("text", ["0", "65536", "x", "-1"])
def test_what_is_no_port_is_refused(text):
    with pytest.raises(BadInput, match=f"not a port: {text}"):
        _port_in(["--port", text])


class Process:
    """A process that is never started, and ends while it is waited for."""

    def __init__(self, command, log, port):
        self.words, self.log, self.fixed, self.port, self.is_stopped = command(70), log, port, 70, False
        self.url = "http://127.0.0.1:70"

    def wait(self, is_ready, within, what):
        self.waited = is_ready(), within, what
        raise serving.ServerEnded(SimpleNamespace(returncode=3, fatal=["no memory"]))

    def stop(self):
        self.is_stopped = True


def made_folder(folder):
    """Make an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return str(folder)


@pytest.fixture
def started(monkeypatch, tmp_path):
    monkeypatch.setattr(serving, "Process", Process)
    monkeypatch.setattr(serving, "model_file", lambda notation: tmp_path / "tiny.gguf")
    monkeypatch.setattr(serving, "mkdtemp", lambda prefix: made_folder(tmp_path / "made"))
    (tmp_path / "tiny.gguf").write_text("")
    return lambda model="GA", flags=("-np", "2"), **more: Serving(REAL, model, [*flags], **more)


def test_a_server_gets_model_port_name_and_folder_of_slots(started, tmp_path):
    found = started()
    words = found._process.words
    assert words[:3] == ["/bin/llama-server", "-m", str(tmp_path / "tiny.gguf")] and words[-2:] == ["-np", "2"]
    assert words[3:7] == ["--host", "127.0.0.1", "--port", "70"]
    assert words[-4:-2] == ["--slot-save-path", f"{tmp_path / 'made' / 'slots'}/"]
    assert (tmp_path / "made" / "slots").is_dir() and found.log == tmp_path / "made" / "log"
    assert (found.url, found._process.fixed) == ("http://127.0.0.1:70", 0)
    found.stop()
    assert found._process.is_stopped


def test_a_log_of_the_user_is_written_anew(started, tmp_path):
    (tmp_path / "own.log").write_text("old")
    found = started(log=tmp_path / "own.log", flags=["--port", "8080"])
    assert found.log.read_text() == "" and found._process.fixed == 8080


def test_a_model_that_does_not_exist_is_refused(started, tmp_path):
    with pytest.raises(BadInput, match="no such model"):
        started(str(tmp_path / "none.gguf"))


def test_a_server_that_ends_is_reported_with_its_log(started, monkeypatch):
    found = started()
    monkeypatch.setattr(serving, "start_error", lambda log, error, binary: BadInput(f"{error} ({binary.name})"))
    monkeypatch.setattr(found._client, "healthy", lambda name: name == serving.alias(70))
    with pytest.raises(BadInput, match=r"the server ended with 3: no memory \(llama-server\)"):
        found.wait_ready()
    assert found._process.waited == (True, serving.START_WITHIN, "loading the model")
    with pytest.raises(BadInput, match="log: the server ended with 3: no memory"):
        found.wait_end()
    assert found._process.waited[0] is False


def test_a_server_stops_with_its_client(started, monkeypatch):
    closed = []
    monkeypatch.setattr(serving.Client, "close", lambda client: closed.append(client))
    found = started()
    found.stop()
    assert closed == [found._client] and found._process.is_stopped


def test_a_server_whose_client_was_never_made_stops(started):
    found = started()
    del found._client
    found.stop()
    assert found._process.is_stopped


def test_a_ready_server_is_served_until_it_ends(started, monkeypatch):
    found = started()
    waited = []
    monkeypatch.setattr(found._process, "wait", lambda ready, within, what: waited.append((ready(), within, what)))
    monkeypatch.setattr(found._client, "healthy", lambda name: name == serving.alias(70))
    found.wait_ready()
    found.wait_end()
    assert waited == [(True, serving.START_WITHIN, "loading the model"), (False, serving.FOREVER, "serving")]


def test_a_model_file_is_taken_as_it_is(started, tmp_path, monkeypatch):
    monkeypatch.setattr(serving, "model_file", None)
    (tmp_path / "GA").write_text("")
    monkeypatch.chdir(tmp_path)
    assert started("GA")._process.words[2] == "GA"
    (tmp_path / "own.gguf").write_text("")
    assert started(str(tmp_path / "own.gguf"))._process.words[2] == str(tmp_path / "own.gguf")
