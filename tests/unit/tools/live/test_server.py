"""A started llama-server: its command line, its log, when it is idle or stuck, and how a failed start is reported."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.log_events import IDLE, read_event
from cachesim.tools.live.llama_server import server as module
from cachesim.tools.live.llama_server.older_server import OlderServer
from cachesim.tools.live.llama_server.process import ProcessEnd, ServerEnded
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.server import (
    BASE,
    CONTROL,
    LAUNCHED,
    PORTS,
    LlamaServer,
    ServerStart,
    ServerStuck,
    run_server,
    start_error,
)
from tests.unit.tools.live.stand_in import stand_in

KINDS = [(LlamaServer, "well"), (OlderServer, "older"), (QuietServer, "well")]


@pytest.fixture
def start(tmp_path):
    (tmp_path / "slots").mkdir()

    def make(kind=LlamaServer, mode="well", listen=True, run=None):
        start = ServerStart(stand_in(tmp_path, mode=mode), tmp_path / "tiny.gguf", (), "b11549", ())
        return (run or run_server)(start, tmp_path / "slots", tmp_path / "log", listen, kind)

    return make


def test_a_command_line_has_the_files_beside_the_model_and_a_unique_alias():
    flags = ("-md", "MODELS/draft.gguf", "-np", "2")
    made = ServerStart(Path("/bin/llama-server"), Path("/m/tiny.gguf"), flags, "b11549", ("-t", "1"))
    assert made.command(80, Path("/tmp/x/slots")) == [
        "/bin/llama-server", "-m", "/m/tiny.gguf", "--host", "127.0.0.1", "--port", "80", "--slot-save-path",
        "/tmp/x/slots/", "--alias", f"cachesim-{os.getpid()}-80", "-t", "1", "-md", "/m/draft.gguf",
        "-np", "2"]  # fmt: skip
    assert ServerStart(Path("b"), Path("m"), (), "").base_flags == BASE


def test_a_server_has_its_facts_its_messages_and_its_settled_work(start):
    with start() as server:
        assert server.is_logged and server.one_slot and server.facts["n_ctx_slot"] == 64 and server.taken() == []
        server.client.complete({"prompt": [1, 2], "n_predict": 1})
        texts = [entry.text for entry in server.settled()]
        assert texts.count(IDLE) == 2 and any(text.startswith("stop processing") for text in texts)
        server.client.post(CONTROL, {"id": "cachesim-99", "action": "reasoning_end"})     # a question of ours
        server.client.post(CONTROL, {"id": "another", "action": "reasoning_end"})
        found = " ".join(entry.text for entry in server.settled())
        assert "another" in found and "cachesim-99" not in found


def test_a_server_that_is_not_listened_to_has_no_facts(start):
    with start(listen=False) as server:
        assert server.facts == {}


def test_each_of_several_that_wait_for_a_line_hears_it(start, monkeypatch):
    """Whichever thread reads the line first: a launched request is not waited for again."""
    monkeypatch.setattr(module, "IDLE_WITHIN", 0.3)
    with start() as server:
        ears = [server.ear((LAUNCHED,)), server.ear(("unknown", LAUNCHED))]
        server.client.complete({"prompt": [1, 2], "n_predict": 1})
        for ear in ears:
            ear()
        with pytest.raises(BadInput):
            server.ear((LAUNCHED,))()


def test_an_idle_server_has_forgotten_a_request_only_after_some_silence(start, monkeypatch):
    with start() as server:
        server.client.complete({"prompt": [1, 2], "n_predict": 1})
        server.process.wait(lambda: server.listen() or any(entry.text == IDLE for entry in server.said), 20, "idling")
        server.await_answers()
        monkeypatch.setattr(module, "DESERTED", -1.0)
        with pytest.raises(ServerStuck):
            server.await_answers()


def test_an_older_server_has_its_messages_without_levels_and_a_marking_request(start):
    with start(OlderServer, "older") as server:
        assert server.is_logged and server.one_slot and server.facts["levels"] is False and server.taken() == []
        for prompt in ([1, 2], [3]):
            server.client.complete({"prompt": prompt, "n_predict": 1})
            events = [event["ev"] for event in map(read_event, server.settled()) if event is not None]
            assert events == ["slot_by_lru", "launch", "new_prompt", "batch", "release"]


def test_an_older_server_is_told_the_tokens_that_end_an_answer(start):
    with start(OlderServer, "older") as older, start() as newer:
        assert older.client.fixed["logit_bias"] == [[96, False]] and "logit_bias" not in newer.client.fixed


def test_a_launch_of_an_older_server_is_heard(start):
    with start(OlderServer, "older") as server:
        hear = server.ear((LAUNCHED,))
        threading.Thread(target=server.client.hang_up, args=({"prompt": [1], "n_predict": 20}, 20, None)).start()
        hear()
        server.settled()


def test_a_server_without_a_log_is_watched_by_its_slots(start, monkeypatch):
    with start(QuietServer) as server:
        assert (server.facts, server.is_logged, server.taken()) == ({"n_slots": 1}, False, [])
        assert server.listen() is None and server.await_answers() is None
        hear = server.ear((LAUNCHED,))
        threading.Thread(target=server.client.hang_up, args=({"prompt": [1], "n_predict": 20}, 20, None)).start()
        hear()
        assert server.settled() == [] and server.client.get("/slots").body == [{"id": 0, "is_processing": False}]
        monkeypatch.setattr("cachesim.tools.live.llama_server.quiet_server.IDLE_WITHIN", 0.05)
        with pytest.raises(BadInput):
            server.ear((LAUNCHED,))()


def test_a_server_that_does_not_report_its_slots_cannot_be_watched(start):
    with pytest.raises(BadInput, match="slots"):
        start(QuietServer, "slotless")


@pytest.mark.parametrize(("kind", "mode"), KINDS)
def test_a_broken_connection_is_the_end_of_the_process(start, kind, mode):
    with start(kind, mode) as server, pytest.raises(ServerEnded) as ended:
        try:
            server.client.complete({"prompt": [13], "n_predict": 1})
        except BadInput:
            server.settled()
    assert ended.value.died.returncode == -6 and "failed to remove" in ended.value.died.fatal[0]


def test_a_server_without_the_control_request_is_too_old(start):
    with pytest.raises(BadInput, match="b10068"):
        start(mode="old")
    start(QuietServer, "old").stop()


def test_only_a_start_whose_port_was_taken_is_repeated(start, tmp_path):
    start(mode="taken").stop()
    with pytest.raises(ServerEnded):
        start(mode="stillborn", run=lambda start, slots, log, listen, kind: kind(start, slots, log, listen))
    starts = tmp_path / "starts"
    for said, number in (("couldn't bind", PORTS), ("failed", 1)):
        starts.write_text("")
        (binary := tmp_path / "binary").write_text(
            f'#!/bin/sh\necho x >>{starts}\necho "0.00.000.001 E srv start: {said}"\nexit 1\n')
        binary.chmod(0o755)
        with pytest.raises(BadInput, match=said):
            run_server(ServerStart(binary, tmp_path / "x.gguf", (), ""), tmp_path / "slots", tmp_path / "log")
        assert len(starts.read_text().split()) == number


LINE = "0.00.000.001 {} srv  f: {}"


@pytest.mark.parametrize(("log", "why"), [
    ([LINE.format("W", "a"), LINE.format("E", "b"), LINE.format("E", "c")], "b"),
    (["error: no such flag", "x"], "no such flag"), ([LINE.format("I", "error: x")], "a.cpp:1: assert"),
    (["llama_x: error loading model: too small"], "too small"), ([], "a.cpp:1: assert"),
])  # fmt: skip
def test_the_first_error_of_the_log_is_the_reason(tmp_path, log, why):
    (file := tmp_path / "log").write_text("".join(f"{line}\n" for line in log))
    found = start_error(file, ServerEnded(ProcessEnd(-6, ("a.cpp:1: assert",))), Path("/b"))
    assert found.file == "/b" and found.cause.endswith(f": {why}")
    silent = start_error(file, ServerEnded(ProcessEnd(3, ())), Path("/b"))
    assert silent.cause.endswith(f": {why}") or "3" in silent.cause


def test_a_build_that_would_load_another_model_is_not_started(tmp_path):
    start = ServerStart(tmp_path / "none", tmp_path / "tiny-W8AA.gguf", (), "b10809")
    with pytest.raises(BadInput, match="'W8 A A'"):
        LlamaServer(start, tmp_path / "slots", tmp_path / "log")
