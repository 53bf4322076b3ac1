"""Tests of the files and verdicts of ``cachesim check``, also where it ends early."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from argparse import Namespace
from contextlib import contextmanager
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from cachesim.base import exits
from cachesim.cli.main import Terminated, main
from cachesim.tools.conformance import check_command
from cachesim.tools.conformance.http_check.batch_control import StartedServers
from cachesim.tools.conformance.http_check.http_client import Http
from tests.unit.tools.conformance.http_check.in_process import Toy
from tests.unit.tools.conformance.http_check.stand_in import serving

ROOT = Path(__file__).resolve().parents[4]
STALE = "A5/B10/B[:1].C5"
QUICK = ("--only", "same", "--history", STALE, "--tolerance", "0.005", "--requests", "120")


@pytest.fixture
def files(tmp_path):
    return tmp_path / "check.xml", tmp_path / "check.md"


def checked(url, files, *options):
    return main(["check", url, *QUICK, "--junit", str(files[0]), "--summary", str(files[1]), *options])


def cases(files, tag):
    """Return the messages of the test cases with this outcome, by property."""
    found = ((case.get("name"), case.find(tag)) for case in parse(files[0]).iter("testcase"))
    return {name: outcome.get("message") for name, outcome in found if outcome is not None}


@pytest.mark.parametrize("complete, used, why", [
    (lambda body: (500, {"error": "boom"}), 0, "status 500: boom"),
    (lambda body: (200, {}), 0, "an answer without a token to a request for 1 token"),
    (Toy(), 7, "1 slots hold conversations (--yes overwrites them)"),
])  # fmt: skip
def test_reports_for_ci_say_why_a_server_cannot_be_checked(capsys, files, complete, used, why):
    with serving(complete, used=used) as url:
        assert checked(url, files) == exits.BAD_INPUT
    assert cases(files, "error") == {"answers": f"undecided: {url}: {why}"} and cases(files, "failure") == {}
    assert "NOT CHECKED" in files[1].read_text("utf-8") and why.partition(":")[0] in capsys.readouterr().err


def test_reports_for_ci_say_that_the_requests_ended(files):
    with serving(Toy()) as url:
        assert checked(url, files, "--requests", "1") == exits.BAD_INPUT
    assert cases(files, "error") == {"answers": "undecided: stopped after 1 requests"}


class Interrupting:
    """Raise a signal's exception in place of a request. ``after``: requests before it."""

    def __init__(self, monkeypatch, path, after):
        self.path, self.left, self.ask = path, after, Http._ask
        monkeypatch.setattr(Http, "_ask", lambda http, *words: self(http, *words))

    def __call__(self, http, method, path, body):
        self.left -= path.startswith(self.path)
        if self.left < 0:
            self.left = 10**9
            raise Terminated(signal.SIGTERM)
        return self.ask(http, method, path, body)


def test_a_signal_before_the_first_completion_leaves_complete_reports(monkeypatch, files):
    Interrupting(monkeypatch, "/v1/models", 0)
    with serving(Toy()) as url:
        assert checked(url, files) == 128 + signal.SIGTERM
    assert cases(files, "error") == {"answers": "undecided: interrupted before the server was identified"}


@pytest.mark.parametrize("after", [0, 3, 40, 70])
def test_a_signal_leaves_complete_reports_and_json(monkeypatch, capsys, files, after):
    Interrupting(monkeypatch, "/completion", after)
    with serving(Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0)) as url:
        code = checked(url, files, "--json")
    data = json.loads(capsys.readouterr().out)
    assert code == 128 + signal.SIGTERM and data["interrupted"] and data["stopped"] == "interrupted"
    failed = [one["name"] for one in data["properties"] if one["state"] == "failed"]
    assert list(cases(files, "failure")) == failed == (["branch"] if after > 3 else [])
    assert "interrupted" in files[1].read_text("utf-8") and bool(cases(files, "error")) is (after < 70)


@pytest.mark.parametrize("complete, verdict", [
    (lambda body: (400, {"error": "no"}), "SERVER STOPPED ANSWERING"), (Toy(), "OK"),
    (Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0), "WRONG: 1 fault"),
])  # fmt: skip
def test_the_verdict_comes_first(capsys, complete, verdict):
    with serving(complete) as url:
        main(["check", url, *QUICK])
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if not line.startswith(("found after ", "  "))).startswith(f"{verdict}  (")


def test_a_server_that_is_started_is_checked_while_it_runs(monkeypatch):
    class Real:
        is_running = False

        @contextmanager
        def serve(self, *words):
            self.words, self.is_running = words, True
            yield Namespace(url="http://127.0.0.1:7")
            self.is_running = False

    real, args = Real(), Namespace(url="", layers="GA", flags="-np 2  -c 64", model="", gguf=None)
    monkeypatch.setattr(check_command, "real_runs", lambda given: real if given is args else None)
    monkeypatch.setattr(check_command, "_checked", lambda given, control: (given.url, real.is_running, control))
    url, is_running, control = check_command._started(args)
    assert (url, is_running) == ("http://127.0.0.1:7", True) and isinstance(control, StartedServers)
    assert real.words == ("GA", ["-np", "2", "-c", "64"]) and not real.is_running


@pytest.mark.parametrize(("words", "says"), [
    (["http://x", "--timeout", "0"], "--timeout: expected more than 0 seconds"),
    ([], "expected the URL of a server, or --real BUILD"),
    (["http://x", "--real", "b11549"], "expected the URL of a server, or --real BUILD"),
    (["http://x", "--only", "sam"], "only: unknown section 'sam'"),
])  # fmt: skip
def test_unusable_arguments_are_refused_before_a_server_is_asked(capsys, words, says):
    assert main(["check", *words]) == exits.BAD_INPUT and says in capsys.readouterr().err


def test_a_dry_run_lists_the_sections_with_their_numbers(capsys):
    words = ["check", "http://x", "--dryrun", "--requests", "1200", "--only", "books", "--only", "noise"]
    assert main(words) == exits.HOLDS
    assert capsys.readouterr().out.splitlines() == [
        "1 noise       distance between cold runs of one request", "7 books       reported counts add up",
        "at most 1,200 requests to http://x; its slots would be overwritten",
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_real_signal_leaves_complete_reports_and_json(files, number):
    toy, started = Toy(), []

    def complete(body):
        if toy.requests == 60:
            started[0].send_signal(number)
        return toy(body)

    words = ["--json", "--junit", str(files[0]), "--summary", str(files[1])]
    with serving(complete) as url:
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)         # background jobs ignore SIGINT
        started.append(subprocess.Popen([sys.executable, "-m", "cachesim", "check", url, *words], cwd=ROOT,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        out, err = started[0].communicate(timeout=120)
    assert started[0].returncode == 128 + number, err
    assert json.loads(out)["interrupted"] and "Traceback" not in err
    assert "interrupted" in cases(files, "error")["append"] and "interrupted" in files[1].read_text("utf-8")
