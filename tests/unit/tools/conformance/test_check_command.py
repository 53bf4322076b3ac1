"""Tests of the files and verdicts of ``cachesim check``, also where it ends early."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.conformance import check_command
from cachesim.tools.conformance.http_check import rules_with_fault
from cachesim.tools.conformance.report import SECTIONS
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


@pytest.mark.parametrize("complete, verdict", [
    (lambda body: (400, {"error": "no"}), "SERVER STOPPED ANSWERING"), (Toy(), "OK"),
    (Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0), "WRONG: 1 fault"),
])  # fmt: skip
def test_the_verdict_comes_first(capsys, monkeypatch, complete, verdict):
    monkeypatch.setattr(rules_with_fault, "MODELS", ())          # no rules are looked up
    with serving(complete) as url:
        main(["check", url, *QUICK])
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if not line.startswith(("found after ", "  "))).startswith(f"{verdict}  (")


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
    main(["check", "http://x", "--dryrun"])
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()[:-1]] == [*SECTIONS]


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


@pytest.fixture
def parsed():
    """Return the arguments of a command line."""
    parser = ArgumentParser()
    check_command.add_arguments(parser)
    return lambda *words: parser.parse_args([*words])


def test_arguments_have_the_defaults_that_the_help_states(parsed):
    args = vars(parsed("http://x"))
    assert {name: args[name] for name in args if name not in ("real", "gguf", "install", "json")} == {
        "url": "http://x", "layers": "GGGA", "flags": "-np 2 -c 4096 -t 1", "control": "", "model": "", "only": [],
        "history": [], "examples": 100, "seconds": None, "requests": 20_000, "timeout": 60.0, "tolerance": None,
        "seed": 0, "key": "", "yes": False, "parallel": 0, "rounds": 20, "images": True, "dryrun": False, "junit": "",
        "summary": "", "plot": ""}  # fmt: skip
    assert parsed().url == ""


def test_the_usage_names_the_value_of_each_option():
    parser = ArgumentParser(prog="check")
    check_command.add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[--layers MODEL]", "[--flags FLAGS]", "[--control URL]", "[--model NAME]", "[--only SECTION]",
                 "[--history LINE]", "[--examples N]", "[--seconds S]", "[--requests N]", "[--timeout S]",
                 "[--tolerance X]", "[--seed N]", "[--key KEY]", "[--yes]", "[--parallel N]", "[--rounds N]",
                 "[--no-images]", "[--dryrun]", "[--junit FILE]", "[--summary FILE]", "[--json]"):  # fmt: skip
        assert text in usage
    assert usage.endswith("[URL]")


def test_the_command_line_gives_the_check_its_bounds(capsys):
    """Requests that arrive together, rounds and images of the command line, as the server hears them."""
    asked = []

    def complete(body):
        asked.append(body)
        return toy(body)

    sent = []
    for words in (["--parallel", "2", "--rounds", "1"], ["--parallel", "3", "--rounds", "1"],
                  ["--parallel", "2", "--rounds", "2"]):  # fmt: skip
        asked.clear()
        toy = Toy()
        with serving(complete, {"total_slots": 4, "default_generation_settings": {"n_ctx": 100}}) as url:
            main(["check", url, "--only", "parallel", "--tolerance", "0.005", "--requests", "2000", *words])
        sent.append(len(asked))
    assert sent[0] < sent[1] and sent[0] < sent[2] and sent[1] != sent[2]


def test_a_check_as_json_and_its_exit_code(capsys, monkeypatch):
    monkeypatch.setattr(rules_with_fault, "MODELS", ("GA",))     # rules are looked up for one model
    fault = Toy(apart=lambda request, prompt, reused: 1.0 if reused == 1 else 0.0)
    with serving(fault) as url:
        code = main(["check", url, *QUICK, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (code, data["faults"], data["interrupted"]) == (exits.BROKEN, 1, False) and "120" in data["stopped"]
    assert data["tolerance"] == 0.005 and 0 < data["requests"] <= 120
    server = {name: data["server"][name] for name in ("dialect", "slots", "adapters")}
    assert server == {"dialect": "native", "slots": 1, "adapters": 0}
    with serving(Toy()) as url:
        assert main(["check", url, *QUICK, "--requests", "40"]) == exits.UNDECIDED
