"""Tests of the parts of `cachesim watch` in this process: its options, its sockets, its two processes."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.base.errors import ENDING, BadInput, Unwritable
from cachesim.tools.watch import analysis, command, relay_process, report
from cachesim.tools.watch.analysis import Sources
from cachesim.tools.watch.command import (
    _end,
    _listener,
    _run_relay,
    _second_process,
    add_arguments,
    run,
    server_address,
)

NOTHING = Namespace(log="", joined="", once=False, listen="", to="", save="", header=False, json=False)


def args(**given):
    return Namespace(**{**vars(NOTHING), **given})


def test_options_have_their_values():
    parser = ArgumentParser(prog="watch")
    add_arguments(parser)
    assert parser.parse_args([]) == NOTHING
    words = ["a", "--log", "b", "--once", "--listen", "c", "--to", "d", "--save", "e", "--header", "--json"]
    assert parser.parse_args(words) == args(log="a", joined="b", once=True, listen="c", to="d", save="e", header=True,
                                            json=True)  # fmt: skip


@pytest.mark.parametrize("given", [{"log": "x.log"}, {"joined": "x.log"}])
def test_a_log_is_analysed_as_it_is_asked(monkeypatch, given):
    asked = []
    monkeypatch.setattr(command, "argument_path", lambda name: f"path of {name}")
    monkeypatch.setattr(command, "LogFollower", lambda path: f"log at {path}")
    monkeypatch.setattr(command, "_analyse", lambda *found: asked.append(found) or 5)
    assert run(args(once=True, json=True, **given)) == 5
    assert asked == [(Sources(log="log at path of x.log", once=True), True)]


@pytest.mark.parametrize("given", [{}, {"log": "x.log"}])
def test_a_relay_gets_the_log_beside_it(monkeypatch, given):
    monkeypatch.setattr(command, "argument_path", str)
    monkeypatch.setattr(command, "LogFollower", lambda path: f"log at {path}")
    monkeypatch.setattr(command, "_relay", lambda found, log: (found.to, log))
    assert run(args(listen="a", to="b", **given)) == ("b", "log at x.log" if given else None)


@pytest.mark.parametrize(("saved", "code"), [
    (None, exits.HOLDS), (SimpleNamespace(unsaved=0), exits.HOLDS), (SimpleNamespace(unsaved=2), exits.BAD_INPUT),
])  # fmt: skip
def test_bodies_that_were_not_saved_show_in_the_exit_code(monkeypatch, saved, code):
    made = []
    ran = SimpleNamespace(run=lambda: made.append("run"))
    monkeypatch.setattr(analysis, "Analysis", lambda *given: made.append(given) or ran)
    monkeypatch.setattr(report, "output", lambda as_json: f"json {as_json}")
    sources = Sources(saved=saved)
    assert command._analyse(sources, True) == code and made == [(sources, "json True"), "run"]


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_is_that_of_the_second_process(code):
    if (child := os.fork()) == 0:
        os._exit(code)
    assert _end(child) == code


def test_a_killed_second_process_is_undecided():
    if (child := os.fork()) == 0:
        signal.pause()
    os.kill(child, signal.SIGKILL)
    assert _end(child) == exits.UNDECIDED


@pytest.mark.parametrize(("status", "code"), [(signal.SIGKILL, exits.UNDECIDED), (7 << 8, 7)])
def test_a_second_interrupt_kills_the_second_process(monkeypatch, status, code):
    """It may have ended just before."""
    calls = []

    def wait(child, options):
        calls.append(("wait", child, options))
        if len(calls) == 1:
            raise KeyboardInterrupt
        return child, status

    monkeypatch.setattr(command.os, "waitpid", wait)
    monkeypatch.setattr(command.os, "kill", lambda *given: calls.append(given))
    assert _end(7) == code
    assert calls == [("wait", 7, 0), (7, signal.SIGKILL), ("wait", 7, 0)]


@pytest.fixture
def ended(monkeypatch):
    """Run the relay, which ends as ``raised`` says, with a second process that ends with ``code``."""
    def relayed(code, raised=None):
        asked, deadlines = [], []

        async def relay_connections(*given, ending):
            asked.append(given)
            ending()
            if raised:
                raise raised

        monkeypatch.setattr(relay_process, "relay_connections", relay_connections)
        monkeypatch.setattr(command, "_end", lambda child: code if child == 7 else None)
        result = _run_relay("server", "listener", (3, None), 7, SimpleNamespace(set=deadlines.append))
        assert (asked, deadlines) == ([("server", "listener", 3, None)], [command.GRACE])
        return result

    return relayed


def test_a_relay_ends_with_the_code_of_the_second_process(ended):
    assert ended(4) == 4
    assert ended(exits.BAD_INPUT, KeyboardInterrupt()) == exits.BAD_INPUT
    with pytest.raises(KeyboardInterrupt):
        ended(exits.HOLDS, KeyboardInterrupt())


@pytest.fixture
def second(monkeypatch):
    """Run the second process, whose analysis returns or raises; return its result, the sources and the calls."""
    def analysed(result, **given):
        found, calls = [], []

        def analyse(sources, as_json):
            found.append((sources, as_json))
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(command, "_analyse", analyse)
        monkeypatch.setattr(command.signal, "signal", lambda *call: calls.append(call))
        monkeypatch.setattr(command, "unblock_signals", lambda: calls.append("unblocked"))
        monkeypatch.setattr(command.os, "nice", lambda n: calls.append(n))
        code = _second_process(args(**given), "log", "saved", (3, 4), SimpleNamespace(is_over="over"))
        return code, found, calls

    return analysed


def test_the_second_process_ignores_interrupts_and_gives_way(second):
    code, found, calls = second(6, once=True, json=True)
    signals = [getattr(signal, name) for name in ("SIGINT", *ENDING)]
    assert code == 6 and calls == [*((number, signal.SIG_IGN) for number in signals), "unblocked", command.NICE]
    assert found == [(Sources(copies=3, log="log", once=True, saved="saved", is_over="over"), True)]
    assert second(6, header=True)[1][0][0].causes == 4


@pytest.mark.parametrize(("raised", "code", "text"), [
    (BrokenPipeError(), exits.BROKEN_PIPE, ""),
    (BadInput("no such file", file="x"), exits.BAD_INPUT, "x: no such file"),
    (Unwritable("no space"), exits.BAD_INPUT, ""),
    (ZeroDivisionError("zero"), exits.CRASH,
     "the analysis failed (ZeroDivisionError: zero); connections are still relayed"),
])  # fmt: skip
def test_an_error_of_the_second_process_is_a_line(second, capsys, raised, code, text):
    assert second(raised)[0] == code
    assert capsys.readouterr() == ("", f"cachesim: {text}\n" if text else "")


class Ended(Exception):
    """The end of a child process."""


@pytest.fixture
def started(monkeypatch):
    """Start the relay's processes as parent or child; return the result and the calls."""
    def start(pid, **given):
        pytest.importorskip("h11", reason="the extra `watch` is not installed")
        calls, pipes = [], iter([(30, 31), (40, 41)])

        @contextmanager
        def blocked():
            calls.append("blocked")
            yield
            calls.append("unblocked")

        def end(code):
            raise Ended(code)

        family, host = (socket.AF_INET6, "::1") if given.get("listen") == "v6" else (socket.AF_INET, "127.0.0.1")
        listener = SimpleNamespace(getsockname=lambda: (host, 81, *([0, 0] if family == socket.AF_INET6 else [])),
                                   close=lambda: calls.append("listener closed"))  # fmt: skip

        @contextmanager
        def listening(text):
            yield listener

        for name, fake in {"_listener": listening, "blocked_signals": blocked, "SharedDeadline": lambda: "deadline",
                           "SavedBodies": lambda path: f"bodies {path}", "path_of": str}.items():  # fmt: skip
            monkeypatch.setattr(command, name, fake)
        for name, fake in {"pipe": lambda: next(pipes), "fork": lambda: calls.append("fork") or pid, "_exit": end,
                           "close": lambda number: calls.append(number)}.items():  # fmt: skip
            monkeypatch.setattr(command.os, name, fake)
        monkeypatch.setattr(command, "_second_process", lambda *found: found[1:])
        monkeypatch.setattr(command, "_run_relay", lambda *found: (*found[:1], found[1] is listener, *found[2:]))
        try:
            return command._relay(args(**{"listen": "a", "to": "http://h:80", **given}), "log"), calls
        except Ended as ended:
            return ended.args[0], calls
        finally:
            monkeypatch.undo()

    return start


def test_the_parent_relays_and_closes_the_ends_of_the_child(started, capsys):
    result, calls = started(7)
    assert result == (("h", 80), True, (31, None), 7, "deadline") and calls == ["blocked", "fork", "unblocked", 30, 41]
    assert capsys.readouterr() == ("", "cachesim: clients use http://127.0.0.1:81/ instead of http://h:80; Ctrl-C ends "
                                       "the relay\n")  # fmt: skip
    assert started(7, header=True)[0][2] == (31, 40)


def test_the_child_analyses_and_closes_the_ends_of_the_parent(started):
    result, calls = started(0)
    assert result == ("log", None, (30, 41), "deadline") and calls == ["blocked", "fork", "listener closed", 31, 40]
    assert started(0, save="x.jsonl")[0][1] == "bodies x.jsonl"


def test_the_address_is_printed_for_programs(started, capsys):
    started(7, json=True, listen="v6")
    out, err = capsys.readouterr()
    assert out == '{"schema": 1, "url": "http://[::1]:81/", "to": "http://h:80"}\n' and "http://[::1]:81/" in err


def test_what_was_printed_before_is_not_printed_again_by_the_child(started, monkeypatch):
    written = io.BytesIO()
    stdout = io.TextIOWrapper(written)                   # closes the bytes when it is dropped
    monkeypatch.setattr(sys, "stdout", stdout)
    print("before")
    started(7)
    assert written.getvalue() == b"before\n" and not stdout.closed      # not in a buffer that the child copies


@pytest.mark.parametrize("text", ["127.0.0.1:0", "localhost:0", "127.0.0.2:0"])
def test_a_loopback_address_is_listened_on(text):
    with _listener(text) as made:
        host, port = made.getsockname()
        assert host == text.partition(":")[0].replace("localhost", "127.0.0.1") and port
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        with _listener_refused(f"{host}:{port}") as refused:
            assert str(refused) == f"port {port}: address already in use (port 0 chooses a free port)"


@pytest.mark.parametrize(("text", "family", "host"), [
    ("[::1]:81", socket.AF_INET6, "::1"), ("127.0.0.1:81", socket.AF_INET, "127.0.0.1")])
def test_a_socket_has_the_family_of_its_address(monkeypatch, text, family, host):
    calls = []
    made = SimpleNamespace(**{name: lambda *given, name=name: calls.append((name, *given))
                              for name in ("setsockopt", "bind", "listen")})  # fmt: skip
    monkeypatch.setattr(command, "socket", SimpleNamespace(**{**vars(socket), "socket": lambda *given: (
        calls.append(given) or made)}))  # fmt: skip
    assert _listener(text) is made and calls == [
        (family,), ("setsockopt", socket.SOL_SOCKET, socket.SO_REUSEADDR, 1), ("bind", (host, 81)),
        ("listen", command.CONNECTIONS)]  # fmt: skip


@contextmanager
def _listener_refused(text):
    with pytest.raises(BadInput) as refused:
        _listener(text)
    yield refused.value


@pytest.mark.parametrize("text", [
    "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:-1", "127.0.0.1:65536", "127.0.0.1:\u0663", "h:1",
])  # fmt: skip
def test_other_texts_are_no_addresses(text):
    with _listener_refused(text) as refused:
        assert str(refused) == f"not an address to listen on: {text!r} (for example 127.0.0.1:8081)"


@pytest.mark.parametrize(("url", "address"), [
    ("http://h", ("h", 80)), ("http://h:1/", ("h", 1)), ("http://h:65535//", ("h", 65535)), ("HTTP://H:8", ("h", 8)),
    ("http://[::1]:8080", ("::1", 8080)),
])  # fmt: skip
def test_the_url_of_a_server_has_an_address(url, address):
    assert server_address(url) == address


@pytest.mark.parametrize(("url", "error"), [
    ("http://h:0", "not a server URL: 'http://h:0' (for example http://127.0.0.1:8080)"),
    ("http://h:65536", "not a server URL: 'http://h:65536' (for example http://127.0.0.1:8080)"),
    ("h:80", "not a server URL: 'h:80' (for example http://127.0.0.1:8080)"),
    ("https://h:80", "expected http://HOST:PORT, found 'https://h:80' (clients add the path)"),
    ("http://h:80/v1", "expected http://HOST:PORT, found 'http://h:80/v1' (clients add the path)"),
    ("http://h:80?x", "expected http://HOST:PORT, found 'http://h:80?x' (clients add the path)"),
    ("http://@h:80", "expected http://HOST:PORT, found 'http://@h:80' (clients add the path)"),
])  # fmt: skip
def test_other_urls_are_refused(url, error):
    with pytest.raises(BadInput) as refused:
        server_address(url)
    assert str(refused.value) == error


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []
    assert {one.dest: one.metavar for one in parser._actions if one.metavar} == {
        "log": "LOG", "joined": "LOG", "listen": "HOST:PORT", "to": "URL", "save": "FILE"}  # fmt: skip
