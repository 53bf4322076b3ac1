"""The main part of exported programs: a warm run of a case, a cold run, and a line for each request."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from cachesim.tools.live.llama_server.export import case_program
from cachesim.tools.live.llama_server.export.case_program import CaseServer, ExportedCase, _binary, _renamed, run_case

ANSWER = {"tokens": [7, 8], "timings": {"cache_n": 3, "prompt_n": 2}}
VARIABLES = ("LLAMA_SERVER", "MODELS", "SEED", "FIRST", "TOLERANCE", "WITHIN", "DELAY")


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(case_program.signal, "signal", lambda *_: None)


MADE = []


class Model:
    """A model whose file has its name."""

    def write(self, path):
        with open(path, "w") as file:
            file.write("model")


class Server:
    """A server that is never started. ``flags``: those of each start; ``has_ended``: the process is gone."""

    has_ended = False

    def __init__(self, binary, models, model, folder, constant):
        self.binary, self.models, self.model, self.constant = binary, models, model, constant
        self.flags, self.is_stopped = [], False
        MADE.append(self)

    def start(self, *flags):
        self.flags.append(flags)
        return "http://127.0.0.1:1"

    def ended(self):
        return self.has_ended

    def stop(self):
        self.is_stopped = True


@pytest.fixture
def program(monkeypatch):
    """Return a function that runs a case on a server with these cold answers, and returns exit code and server."""
    monkeypatch.setattr(case_program, "CaseServer", Server)

    def run(warm, cold, has_ended=False, **more):
        def history(talk, server, words):
            for number, came in warm.items():
                talk.came[number], talk.sent[number] = came, {}

        monkeypatch.setattr(Server, "has_ended", has_ended)
        monkeypatch.setattr(case_program.ServerTalk, "cold", lambda self, number, server: cold[number])
        fields = {"models": {"m.gguf": Model()}, "words": {"A": [101, 102]}, "spelled": (), "flags": ("-np", "1"),
                  "cold_flags": ("-np", "9"), "constant": ("-t", "1"), "history": history, "tolerance": 0.01,
                  "expected": dict.fromkeys(warm, (3, 2)), "wheel": ""}  # fmt: skip
        case = ExportedCase(**{**fields, **more})
        return run_case(case), MADE[-1]

    return run


def test_equal_answers_show_no_fault(program, capsys):
    code, server = program({0: (200, ANSWER)}, {0: (200, ANSWER)})
    assert capsys.readouterr().out.splitlines() == [
        "request  cache_n (expected)  evaluated (expected)  answer",
        "0  3 (3)  2 (2)  same as cold  tokens: 7 8", "the fault does not show",
    ]  # fmt: skip
    assert (code, server.flags, server.is_stopped) == (0, [("-np", "1"), ("-np", "9")], True)
    assert (server.binary, server.model, server.constant) == (["llama-server"], "m.gguf", ("-t", "1"))


def test_a_different_answer_is_the_fault_also_if_later_ones_are_equal(program, capsys):
    other = {"tokens": [7, 9]}
    code, _ = program({0: (200, other), 1: (200, ANSWER)}, {0: (200, ANSWER), 1: (200, ANSWER)})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "0  - (3)  - (2)  DIFFERS from a cold run: token 1 is 9, not 8  tokens: 7 9"
    assert (code, lines[-1]) == (1, "THE FAULT SHOWS")


def test_tokens_are_shown_up_to_the_eighth(program, capsys):
    long = {"tokens": [*range(9)]}
    program({0: (200, long), 1: (200, {"content": ""})}, {0: (200, long), 1: (200, {"content": ""})})
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("  tokens: 0 1 2 3 4 5 6 7") and lines[2] == "1  - (3)  - (2)  same as cold"


def test_a_server_that_ends_at_the_cold_run_shows_the_fault_and_is_started_again(program, capsys):
    code, server = program({0: (200, ANSWER)}, {0: (0, None)}, has_ended=True)
    assert "0  - (3)  - (2)  the server has ended" in capsys.readouterr().out
    assert code == 1 and server.flags == [("-np", "1"), ("-np", "9"), ("-np", "9")]
    code, _ = program({0: (200, ANSWER)}, {0: (0, None)}, has_ended=False)
    assert "cold: HTTP 000, warm: 200" in capsys.readouterr().out and code == 0


def test_the_answer_to_a_client_that_left_is_not_compared(program, capsys):
    def history(talk, server, words):
        talk.disconnected.add(4)
        talk.came[5], talk.sent[5] = (200, ANSWER), {}

    code, _ = program({}, {5: (200, {**ANSWER, "tokens": [9]})}, history=history,
                      expected={4: (0, 0), 5: (3, 2)})  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "4  (disconnected)" and lines[2].startswith("5  3 (3)  2 (2)") and code == 1


def test_a_program_that_fails_has_its_own_exit_code(program, capsys):
    def history(talk, server, words):
        raise ValueError("broken")

    code, server = program({}, {}, history=history)
    assert code == 2 and "ValueError: broken" in capsys.readouterr().err and server.is_stopped


def test_models_are_written_where_they_are_missing(program, monkeypatch, tmp_path):
    monkeypatch.setenv("MODELS", str(tmp_path / "made"))
    _, server = program({}, {})
    assert server.models == str(tmp_path / "made") and (tmp_path / "made" / "m.gguf").read_text() == "model"
    (tmp_path / "made" / "m.gguf").write_text("own")
    program({}, {})
    assert (tmp_path / "made" / "m.gguf").read_text() == "own"


def case(**more):
    fields = dict.fromkeys(ExportedCase._fields)
    return ExportedCase(**{**fields, "words": {"A": [100, 101, 319, 320]}, "spelled": (), "wheel": "", **more})


def test_words_get_other_tokens_with_a_seed_and_a_first_token(monkeypatch):
    assert _renamed(case(), "A") == [100, 101, 319, 101]
    monkeypatch.setenv("SEED", "2")
    assert _renamed(case(), "A") == [100, 103, 102, 103]
    monkeypatch.setenv("FIRST", "1000")
    assert _renamed(case(), "A") == [100, 1002, 1001, 1002]
    assert _renamed(case(spelled=("A",)), "A") == [100, 101, 319, 320]


def test_the_server_is_that_of_the_variable_else_of_the_wheel_else_of_the_path(monkeypatch, tmp_path):
    assert _binary(case(), str(tmp_path)) == ["llama-server"]
    assert _binary(case(wheel="print(1)"), str(tmp_path)) == [sys.executable, str(tmp_path / "server.py")]
    assert (tmp_path / "server.py").read_text() == "print(1)"
    for value, binary in (("mine", "mine"), (f"bin{os.sep}mine", os.path.abspath("bin/mine"))):
        monkeypatch.setenv("LLAMA_SERVER", value)
        assert _binary(case(wheel="print(1)"), str(tmp_path)) == [binary]


def stand_in(text):
    """Return the words that start a program which writes a line, others on stderr, and then ends or, with an empty
    line, sleeps."""
    rest = "time.sleep(60)" if not text else "sys.exit(3)"
    first, _, others = text.partition("\n")
    says = f"print({first!r}, flush=True); print({others!r}, end='', file=sys.stderr, flush=True)"
    return [sys.executable, "-S", "-E", "-c", f"import sys, time; {says}; {rest}"]


@pytest.mark.parametrize(("log", "starts"), [
    ("x E one", 1), ("a E couldn't bind", 5), ("a E couldn't bind\nx E one", 5)])
def test_a_server_that_does_not_start_ends_the_program_with_its_errors(monkeypatch, capsys, tmp_path, log, starts):
    server, begun = CaseServer(stand_in(log), "models", "m", str(tmp_path), ()), []
    started = server._started

    def counted(port, flags):
        begun.append(port)
        return started(port, flags)

    monkeypatch.setattr(server, "_started", counted)
    monkeypatch.setattr(case_program.ServerTalk, "request", lambda *_: server.process.wait() and (0, None))
    monkeypatch.setattr(case_program.time, "sleep", lambda _: None)
    with pytest.raises(SystemExit) as ended:
        server.start()
    assert (ended.value.code, len(begun)) == (2, starts)
    assert capsys.readouterr().err.splitlines() == ["the server does not start:", *log.splitlines()]


def test_a_server_is_ready_when_it_answers_with_its_own_name(monkeypatch, tmp_path):
    replies = [(0, None), (503, {}), (200, None), (200, {"model_alias": "another"})]
    server, asked, waited = CaseServer(stand_in(""), "models", "m", str(tmp_path), ("-t", "1")), [], []

    def request(talk, method, path):
        asked.append((talk.url, talk.within, method, path))
        name = server.process.args[server.process.args.index("--alias") + 1]
        return replies.pop(0) if replies else (200, {"model_alias": name})

    monkeypatch.setattr(case_program.ServerTalk, "request", request)
    monkeypatch.setattr(case_program.time, "sleep", waited.append)
    url = server.start("--lora", "MODELS/a.gguf")
    words = server.process.args
    assert asked == [(url, 5, "GET", "/props")] * 5 and waited == [0.1] * 4
    assert int(url.rpartition(":")[2]) > 1_023
    assert words[5:9] == ["-m", os.path.join("models", "m"), "--host", "127.0.0.1"]
    assert words[-4:] == ["-t", "1", "--lora", os.path.join("models", "a.gguf")]
    server.stop()
    assert server.process.poll() is not None and os.path.isdir(tmp_path / "slots")


def test_a_program_that_cannot_be_run_is_named(capsys, tmp_path):
    with pytest.raises(SystemExit) as ended:
        CaseServer(["/no/such/server"], "models", "m", str(tmp_path), ()).start()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "/no/such/server: No such file or directory (set LLAMA_SERVER=PATH)\n"


def test_a_server_is_ended_before_it_is_started_again(monkeypatch, tmp_path):
    server, calls = CaseServer(stand_in(""), "models", "m", str(tmp_path), ()), []
    monkeypatch.setattr(server, "stop", lambda: calls.append("stop"))
    monkeypatch.setattr(server, "_started", lambda port, flags: calls.append(flags) or True)
    server.start("-np", "2")
    server.start()
    assert calls == ["stop", ("-np", "2"), "stop", ()]


class GivenProcess:
    """A process that ends at the given attempt to wait for it."""

    def __init__(self, ends_at):
        self.left, self.calls = ends_at, []

    def wait(self, within=None):
        self.calls.append(("wait", within))
        self.left -= 1
        if self.left > 0:
            raise case_program.subprocess.TimeoutExpired("server", within)

    def terminate(self):
        self.calls.append("terminate")

    def kill(self):
        self.calls.append("kill")


def test_a_server_that_does_not_end_by_itself_is_killed(tmp_path):
    server = CaseServer([], "models", "m", str(tmp_path), ())
    server.stop()
    server.process = GivenProcess(1)
    assert server.ended() is True
    server.process = GivenProcess(2)
    assert server.ended() is False and server.process.calls == [("wait", 5)]
    server.process = GivenProcess(1)
    server.stop()
    assert server.process.calls == ["terminate", ("wait", 5)]
    server.process = GivenProcess(2)
    server.stop()
    assert server.process.calls == ["terminate", ("wait", 5), "kill", ("wait", None)]


def test_only_the_last_errors_of_a_log_are_printed(monkeypatch, capsys, tmp_path):
    server = CaseServer([], "models", "m", str(tmp_path), ())
    monkeypatch.setattr(server, "_started", lambda port, flags: False)
    log = tmp_path / "log"
    for text, printed in (("a\nb\nc\nd\n", "b\nc\nd\n"), ("x E 1\na\nx E 2\nb\n", "x E 1\nx E 2\n"), ("", "")):
        log.write_text(text)
        with pytest.raises(SystemExit):
            server.start()
        assert capsys.readouterr().err == f"the server does not start:\n{printed}"


def test_time_limits_and_the_tolerance_come_from_the_environment(program, monkeypatch, capsys):
    seen = []
    far, near = ({"tokens": [7], "completion_probabilities": [{"top_logprobs": [{"id": 7, "logprob": value}]}]}
                 for value in (-1.0, -1.5))  # fmt: skip

    def history(talk, server, words):
        seen.append((talk.within, talk.delay, words))
        talk.came[0], talk.sent[0] = (200, far), {}

    case = {"history": history, "expected": {0: (0, 0)}}
    assert program({}, {0: (200, near)}, **case)[0] == 1
    monkeypatch.setenv("WITHIN", "7")
    monkeypatch.setenv("DELAY", "0.5")
    monkeypatch.setenv("TOLERANCE", "0.5")
    assert program({}, {0: (200, near)}, **case)[0] == 0
    assert seen == [(60.0, 0.05, {"A": [101, 102]}), (7.0, 0.5, {"A": [101, 102]})]
    assert "log-probabilities by 0.5" in capsys.readouterr().out


def test_signals_end_the_program_with_their_number(program, monkeypatch):
    handlers = {}
    monkeypatch.setattr(case_program.signal, "signal", handlers.__setitem__)
    program({}, {})
    assert set(handlers) == {case_program.signal.SIGTERM, case_program.signal.SIGHUP}
    with pytest.raises(SystemExit) as ended:
        handlers[case_program.signal.SIGTERM](15, None)
    assert ended.value.code == 143


def test_after_a_server_that_ended_the_next_answers_come_from_the_new_one(program, capsys, monkeypatch):
    urls = iter(["http://warm", "http://cold", "http://again"])
    monkeypatch.setattr(Server, "start", lambda self, *flags: next(urls))
    seen, cold = [], {0: (0, None), 1: (200, ANSWER)}
    monkeypatch.setattr(Server, "has_ended", True)

    def history(talk, server, words):
        talk.came.update(dict.fromkeys((0, 1), (200, ANSWER)))
        monkeypatch.setattr(case_program.ServerTalk, "cold",
                            lambda self, number, other: seen.append((number, other.url)) or cold[number])  # fmt: skip

    code, _ = program({}, {}, history=history, has_ended=True, expected={0: (3, 2), 1: (3, 2)})
    assert seen == [(0, "http://cold"), (1, "http://again")] and code == 1
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "0  - (3)  - (2)  the server has ended", "1  3 (3)  2 (2)  same as cold  tokens: 7 8"]  # fmt: skip


def test_a_log_may_contain_bytes_that_are_no_text(tmp_path):
    server = CaseServer([], "models", "m", str(tmp_path), ())
    (tmp_path / "log").write_bytes(b"a \xff b\nc\n")
    assert server.lines() == ["a \ufffd b", "c"]


def test_a_server_has_a_minute_to_load_its_model(monkeypatch, tmp_path):
    server, asked, times = CaseServer(stand_in(""), "models", "m", str(tmp_path), ()), [], iter([7.0, 7.0, 66.9, 67.0])
    monkeypatch.setattr(case_program.ServerTalk, "request", lambda *_: asked.append(1) or (503, {}))
    monkeypatch.setattr(case_program, "time", SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _: None))
    assert server._started(8080, ()) is False and len(asked) == 2
    server.process.kill()
    server.process.wait()


def test_texts_are_utf_8_on_every_machine(monkeypatch, tmp_path):
    opened = []

    def opening(path, mode="r", **how):
        opened.append((os.path.basename(path), mode, how.get("encoding")))
        return open(path, mode, **how)

    monkeypatch.setattr(case_program, "open", opening, raising=False)
    (tmp_path / "log").write_text("a")
    assert CaseServer([], "models", "m", str(tmp_path), ()).lines() == ["a"]
    _binary(case(wheel="print(1)"), str(tmp_path))
    assert opened == [("log", "r", "utf-8"), ("server.py", "w", "utf-8")]
