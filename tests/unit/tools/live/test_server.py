"""A started llama-server: its command line, its log, when it is idle or stuck, and how a failed start is reported."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.http_client import ConnectionLost, HttpReply
from cachesim.engines.llama_cpp.log_events import IDLE, Entry
from cachesim.tools.live.llama_server import server as module
from cachesim.tools.live.llama_server.process import ProcessEnd, ServerEnded
from cachesim.tools.live.llama_server.quiet_server import QuietServer
from cachesim.tools.live.llama_server.server import (
    BASE,
    DESERTED,
    LAUNCHED,
    LONG,
    MANY,
    MARK,
    PORTS,
    LlamaServer,
    ServerStart,
    ServerStuck,
    alias,
    run_server,
    start_error,
)

HEALTHY = HttpReply(200, {"model_alias": "x"})
END = ProcessEnd(-6, ("a.cpp:1: assert",))
START = ServerStart(Path("/bin/llama-server"), Path("/m/tiny.gguf"), ("-np", "2"), "b11549")


def entry(text, level="I"):
    return Entry(level, None, None, text)


class GivenProcess:
    """Process whose conditions are polled a few times, with an action before each poll."""

    def __init__(self):
        self.url, self.port, self.polls, self.calls = "http://127.0.0.1:5", 5, [], []
        self.is_stopped, self.returncode = 0, -6

    def wait(self, until, seconds, what):
        self.calls.append((seconds, what))
        for poll in [*self.polls, lambda: None]:
            poll()
            if until():
                return
        raise BadInput(f"{what} took too long")

    def died(self):
        return END

    def stop(self):
        self.is_stopped += 1


class GivenServer:
    """Server with given log messages and replies."""

    def __init__(self, monkeypatch, kind=LlamaServer, replies=()):
        self.process, self.log, self.now, self.asked = GivenProcess(), [], 0.0, []
        self.replies = dict(replies)
        client = SimpleNamespace(healthy=lambda name: name == alias(5), post=self.post, get=self.get, close=self.close)
        self.is_closed = False
        monkeypatch.setattr(module, "Process", lambda command, log: self.process)
        monkeypatch.setattr(module, "Client", lambda url: client)
        monkeypatch.setattr(module, "Logbook", lambda log: SimpleNamespace(read=self.read))
        monkeypatch.setattr(module, "seconds", lambda: self.now)
        monkeypatch.setattr(module, "check_build", lambda gguf, commit: None)
        self.answers_marks = True
        self.server = kind(START, Path("slots"), Path("log"))

    def close(self):
        self.is_closed = True

    def read(self):
        said, self.log = self.log, []
        return said

    def post(self, path, body):
        self.asked.append((path, body))
        if self.answers_marks:
            self.log += [entry(MARK.format(body["id"])), entry(IDLE)]
        return self.replies.get(path, HttpReply(200, {}))

    def get(self, path):
        reply = self.replies[path]
        if isinstance(reply, list):
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def says(self, *texts):
        self.log += [entry(text) for text in texts]


@pytest.fixture
def given(monkeypatch):
    return GivenServer(monkeypatch)


def test_a_command_line_has_the_files_beside_the_model_and_a_unique_alias():
    flags = ("-md", "MODELS/draft.gguf", "-np", "2")
    made = ServerStart(Path("/bin/llama-server"), Path("/m/tiny.gguf"), flags, "b11549", ("-t", "1"))
    assert made.command(80, Path("/tmp/x/slots")) == [
        "/bin/llama-server", "-m", "/m/tiny.gguf", "--host", "127.0.0.1", "--port", "80", "--slot-save-path",
        "/tmp/x/slots/", "--alias", f"cachesim-{os.getpid()}-80", "-t", "1", "-md", "/m/draft.gguf",
        "-np", "2"]  # fmt: skip
    assert START.base_flags == BASE


def test_a_server_is_ready_when_it_is_healthy_and_idle(given):
    assert given.process.calls == [(60.0, "loading the model"), (120.0, "finishing the pending work")]
    assert given.asked == [("/v1/chat/completions/control", {"id": "cachesim-1", "action": "reasoning_end"})]
    assert given.server.facts == {"seq_rm": "partial"} and not given.server.one_slot and given.server.said == []
    given.server.facts["n_slots"] = 1
    assert given.server.one_slot


def test_a_server_that_is_not_listened_to_has_no_facts(monkeypatch):
    given = GivenServer(monkeypatch)
    silent = LlamaServer(START, Path("slots"), Path("log"), listen=False)
    assert silent.facts == {} and len(given.asked) == 1


def test_a_server_that_fails_to_start_is_stopped(monkeypatch):
    given = GivenServer(monkeypatch)
    monkeypatch.setattr(given.process, "polls", [])
    monkeypatch.setattr(module, "alias", lambda port: "another")
    with pytest.raises(BadInput, match="loading the model took too long"):
        LlamaServer(START, Path("slots"), Path("log"))
    assert given.process.is_stopped == 1 and given.is_closed


def test_messages_are_taken_once_without_those_of_our_own_marks(given):
    given.says("a", "b")
    given.server.listen()
    given.says("c", MARK.format("cachesim-9"), MARK.format("of-another"))
    assert [one.text for one in given.server.taken()] == ["a", "b", "c", MARK.format("of-another")]
    assert given.server.taken() == []


def test_a_server_has_settled_when_it_is_idle_after_the_mark(given):
    given.answers_marks = False
    mark = MARK.format("cachesim-2")
    given.process.polls = [lambda: given.says(IDLE), lambda: given.says("x", mark), lambda: given.says("y"),
                           lambda: given.says(IDLE), lambda: pytest.fail("is idle")]  # fmt: skip
    assert [one.text for one in given.server.settled()] == [IDLE, "x", "y", IDLE]
    assert given.asked[-1][1]["id"] == "cachesim-2"


def test_a_server_without_the_control_request_is_too_old(given):
    given.replies["/v1/chat/completions/control"] = HttpReply(404, {})
    with pytest.raises(BadInput, match="needs b10566 or newer"):
        given.server.settled()


def test_a_broken_connection_is_the_end_of_the_process(given, monkeypatch):
    def lost(*_):
        raise ConnectionLost("gone")

    monkeypatch.setattr(given.server.client, "post", lost)
    with pytest.raises(ServerEnded) as ended:
        given.server.settled()
    assert ended.value.died == END and given.process.calls[-1] == (20.0, "ending")
    given.process.returncode = None
    with pytest.raises(BadInput, match="ending took too long"):
        given.server.died()


def test_empty_rounds_for_a_long_time_are_stuck(given):
    empty = ["processing new tasks", "posting NEXT_RESPONSE"]
    given.says(*empty * (MANY + 2))
    given.server.listen()
    given.now = LONG
    with pytest.raises(ServerStuck):
        given.server.listen()


@pytest.mark.parametrize(("texts", "after", "is_stuck"), [
    ([IDLE], DESERTED, False), ([IDLE], DESERTED + 1, True), ([IDLE, f"{LAUNCHED} = 0"], DESERTED + 1, False),
    ([f"{LAUNCHED} = 0", IDLE, "x"], DESERTED + 1, True), (["x"], DESERTED + 1, False),
])  # fmt: skip
def test_an_idle_server_that_is_silent_has_forgotten_a_waiting_request(given, texts, after, is_stuck):
    given.now = 100.0
    given.says(*texts)
    given.server.listen()
    given.now = 100.0 + after
    if is_stuck:
        with pytest.raises(ServerStuck):
            given.server.await_answers()
    else:
        given.server.await_answers()
    given.says("more")
    given.server.await_answers()                       # the silence begins again


def test_an_ear_hears_what_is_logged_after_it_was_made(given):
    given.says("slot launched 1")
    given.server.listen()
    hear = given.server.ear(("slot launched", "slot refused"))
    given.process.polls = [lambda: None, lambda: given.says("x slot launched"), lambda: given.says("slot refused 2")]
    hear()
    assert given.process.calls[-1] == (120.0, "waiting for 'slot launched'")
    with pytest.raises(BadInput):
        given.server.ear(("slot launched",))()


def test_a_server_is_stopped_with_its_connections(given):
    given.server.stop()
    assert given.is_closed and given.process.is_stopped == 1


class Kind:
    """Server whose starts end as given; "" starts."""

    def __init__(self, monkeypatch, *errors):
        self.errors, self.asked = list(errors), []
        self.log = []
        monkeypatch.setattr(module, "Logbook", lambda log: SimpleNamespace(read=lambda: self.log))

    def __call__(self, *what):
        self.asked.append(what)
        error = self.errors.pop(0)
        if not error:
            return "started"
        self.log = [entry("loading"), entry(error, "E"), entry("later", "E")]
        raise ServerEnded(END)


def test_a_start_is_repeated_only_if_the_port_was_taken(monkeypatch):
    kind = Kind(monkeypatch, "couldn't bind to it", "couldn't bind to it", "")
    assert run_server(START, Path("slots"), Path("log"), False, kind) == "started"
    assert kind.asked == [(START, Path("slots"), Path("log"), False)] * 3
    kind = Kind(monkeypatch, "unknown flag", "")
    with pytest.raises(BadInput, match="/bin/llama-server: the server ended when it started: unknown flag"):
        run_server(START, Path("slots"), Path("log"), kind=kind)
    assert len(kind.asked) == 1 and kind.asked[0][3] is True
    kind = Kind(monkeypatch, *["couldn't bind to it"] * PORTS, "")
    with pytest.raises(BadInput, match="couldn't bind"):
        run_server(START, Path("slots"), Path("log"), kind=kind)
    assert len(kind.asked) == PORTS


@pytest.mark.parametrize(("said", "why"), [
    ([entry("a", "W"), entry("b", "E"), entry("c", "E")], "b"),
    ([entry("error: no such flag", ""), entry("x", "")], "no such flag"), ([entry("error: x")], "a.cpp:1: assert"),
    ([entry("llama_x: error loading model: too small", "")], "too small"), ([], "a.cpp:1: assert"),
])  # fmt: skip
def test_the_first_error_of_the_log_is_the_reason(monkeypatch, said, why):
    monkeypatch.setattr(module, "Logbook", lambda log: SimpleNamespace(read=lambda: said))
    assert str(start_error(Path("log"), ServerEnded(END), Path("/b"))) == f"/b: the server ended when it started: {why}"
    if not said:
        silent = ServerEnded(ProcessEnd(1, ()))
        assert str(start_error(Path("log"), silent, Path("/b"))).endswith("the server ended with 1: no message")


def slots(*works):
    return HttpReply(200, [*({"is_processing": one} for one in works), 7])


def quiet(monkeypatch, *replies):
    return GivenServer(monkeypatch, QuietServer, {"/slots": [slots(False, False), *replies]})


def test_a_quiet_server_counts_its_slots_and_reads_no_log(monkeypatch):
    given = quiet(monkeypatch)
    given.says("x")
    given.server.listen()
    given.server.await_answers()
    assert (given.server.facts, given.server.taken(), given.server.said, given.asked) == ({"n_slots": 2}, [], [], [])
    assert not QuietServer.is_logged and LlamaServer.is_logged


def test_a_quiet_server_has_settled_when_no_slot_works(monkeypatch):
    given = quiet(monkeypatch, slots(True, False), slots(False, True), slots(False, False), ConnectionLost("unasked"))
    given.process.polls = [lambda: None] * 4
    assert given.server.settled() == [] and given.process.calls[-1] == (120.0, "finishing the pending work")


def test_a_quiet_server_has_launched_a_request_when_a_slot_works(monkeypatch):
    given = quiet(monkeypatch, slots(False, False), slots(False, True), ConnectionLost("unasked"))
    given.process.polls = [lambda: None] * 3
    given.server.ear(("x",))()
    assert given.process.calls[-1] == (120.0, "starting a request")


@pytest.mark.parametrize("reply", [HttpReply(501, []), HttpReply(200, {})])
def test_a_quiet_server_that_does_not_report_its_slots_is_refused(monkeypatch, reply):
    with pytest.raises(BadInput, match="the server does not report its slots"):
        quiet(monkeypatch, reply).server.settled()
    with pytest.raises(ServerEnded):
        quiet(monkeypatch, ConnectionLost("gone")).server.settled()


def test_a_build_that_would_load_another_model_is_not_started(monkeypatch):
    monkeypatch.setattr(module, "Process", lambda *_: pytest.fail("it was started"))
    start = ServerStart(Path("/bin/llama-server"), Path("/m/tiny-W8AA.gguf"), (), "b10809")
    with pytest.raises(BadInput, match="reads the windows of 'W8 A A' as another model's"):
        LlamaServer(start, Path("slots"), Path("log"))
