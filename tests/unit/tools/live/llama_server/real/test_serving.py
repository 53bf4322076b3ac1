"""A real server that runs until the user ends it, with the simulator in its place."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.process import free_port
from cachesim.tools.live.llama_server.real.real_server import own_server
from cachesim.tools.live.llama_server.real.serving import Serving
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher

__all__ = ["servers"]       # a fixture


@pytest.fixture
def serve(servers, tmp_path, monkeypatch):
    """Return a function that starts a server, whose files lie below the folder ``made``."""
    (tmp_path / "made").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "made"))
    server = own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518"))
    return lambda model="A", flags=(), **more: Serving(server, model, [*flags], **more)


def left(tmp_path):
    """Return the names of the temporary files of cachesim."""
    return [file.name for folder in (tmp_path / "made").glob("cachesim-*") for file in (folder, *folder.rglob("*"))]


def test_a_server_gets_model_port_name_and_folder_of_slots(serve, servers, tmp_path):
    with serve(flags=["-np", "2"]) as found:
        found.wait_ready()
        words = servers.words[0]
        named = dict(pairwise(words))
        assert Path(named["-m"]).name == "tiny-A.gguf" and words[-2:] == ["-np", "2"]
        assert found.url == f"http://{named['--host']}:{named['--port']}"
        assert Path(named["--slot-save-path"]).is_dir() and named["--slot-save-path"].startswith(str(tmp_path / "made"))
        assert found.log.parent == Path(named["--slot-save-path"]).parent and found.log.exists()
    assert left(tmp_path) == []


def test_a_log_of_the_user_is_written_anew_and_a_port_is_kept(serve, servers, tmp_path):
    (log := tmp_path / "own.log").write_text("old")
    with serve(log=log, flags=["-np", "1", "--port", str(port := free_port())]) as found:
        assert (found.log.read_text(), found.url) == ("", f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
def test_what_is_no_port_is_refused(serve, servers, tmp_path, port):
    with pytest.raises(BadInput, match=port):
        serve(flags=["--port", port])
    assert servers.words == [] and left(tmp_path) == []


def test_a_model_file_is_taken_as_it_is(serve, servers, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match=r"none\.gguf"):
        serve(str(tmp_path / "none.gguf"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A").write_text("")
    serve("./A").stop()
    assert servers.words[0][1] == "A"
    serve("A").stop()
    assert servers.words[1][1].endswith("tiny-A.gguf")


def test_a_server_that_does_not_start_is_reported_with_its_error(serve, tmp_path):
    (tmp_path / "llama-server").write_text("#!/bin/sh\necho 'error: no such flag' >&2\nexit 3\n")
    with serve() as found, pytest.raises(BadInput, match="no such flag"):
        found.wait_ready()
    assert left(tmp_path) == []


def test_a_program_that_cannot_be_started_leaves_nothing(serve, tmp_path):
    (tmp_path / "llama-server").chmod(0o600)
    with pytest.raises(BadInput, match="not an executable file"):
        serve()
    assert left(tmp_path) == []


def test_the_log_that_an_error_names_stays(serve, tmp_path, monkeypatch):
    monkeypatch.setattr("cachesim.tools.live.llama_server.real.serving.START_WITHIN", 0.0)
    (tmp_path / "llama-server").write_text("#!/bin/sh\nexec sleep 60\n")
    with serve() as found, pytest.raises(BadInput) as bad:
        found.wait_ready()
    assert bad.value.file == str(found.log) and found.log.exists() and "slots" not in left(tmp_path)


def test_a_server_that_ends_is_reported_with_its_log(serve, servers, tmp_path):
    servers.ends = lambda prompt: True
    with serve() as found:
        found.wait_ready()
        with pytest.raises(BadInput):
            Client(found.url).complete({"prompt": [1], "n_predict": 1})
        with pytest.raises(BadInput, match="-6") as ended:
            found.wait_end()
        assert ended.value.file == str(found.log)
    assert found.log.exists() and "slots" not in left(tmp_path)
