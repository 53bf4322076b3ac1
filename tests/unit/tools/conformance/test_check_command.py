"""Tests of the files and verdicts of ``cachesim check``, also where it ends early."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from xml.etree.ElementTree import parse

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import Terminated, main
from cachesim.tools.conformance import check_command
from cachesim.tools.conformance.http_check import dialect, http_client
from cachesim.tools.conformance.http_check import drafts as drafts_module
from cachesim.tools.conformance.http_check.adapters import Adapter
from cachesim.tools.conformance.http_check.batch_control import SecondServer, StartedServers
from cachesim.tools.conformance.http_check.dialect import ServerFacts
from cachesim.tools.conformance.http_check.http_client import Http
from cachesim.tools.conformance.http_check.listener import FoundFault
from cachesim.tools.conformance.http_check.matching_rules import MatchingRuleSet
from cachesim.tools.conformance.http_check.suite import CheckOptions, ServerReport
from cachesim.tools.conformance.report import SECTIONS, Finding, Report, Result
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
        "summary": ""}  # fmt: skip
    assert parsed().url == ""


def test_options_of_a_check_are_those_of_the_command_line(parsed):
    words = ["--only", "same", "--history", "A5/A", "--examples", "7", "--seconds", "3", "--timeout", "2",
             "--tolerance", "0.5", "--seed", "4", "--no-images", "--parallel", "5", "--rounds", "6"]  # fmt: skip
    assert check_command._options(parsed("http://x", *words)) == CheckOptions(
        ("same",), ("A5/A",), 7, 3.0, 2.0, 0.5, seed=4, images=False, at_once=5, rounds=6)  # fmt: skip
    assert check_command._options(parsed("http://x")) == CheckOptions()
    assert check_command._options(parsed("http://x", "--examples", "0")).examples == 1


class Asked:
    """Client of a server that is never asked."""

    made = None

    def __init__(self, *words):
        self.words, self.url, self.is_closed = words, words[0], False
        self.made.append(self)

    def close(self):
        self.is_closed = True


def facts(**more):
    return ServerFacts("native", "toy", 2, 4096, range(9), **more)


@pytest.fixture
def asked(monkeypatch):
    """Clients that are made; ``facts`` of their server, and what ends its check."""
    found = Namespace(facts=facts(), end=None, calls=[], clients=[])

    def drafts(http, server):
        found.calls.append("drafts")
        if found.end is not None:
            raise found.end
        return True

    monkeypatch.setattr(Asked, "made", found.clients)
    monkeypatch.setattr(http_client, "Http", Asked)
    monkeypatch.setattr(dialect, "identify_server", lambda http: found.facts)
    monkeypatch.setattr(drafts_module, "detect_drafts", drafts)
    return found


def test_a_control_is_asked_like_the_server(asked, parsed):
    args = parsed("http://x", "--timeout", "2", "--requests", "9", "--key", "k", "--seconds", "5")
    with check_command._control_stage(args, "http://y") as stage:
        [client] = asked.clients
        assert (client.words, client.is_closed) == (("http://y", 2.0, 9, "k", 5.0), False)
        assert stage.http is client and stage.server == facts(drafts=True) and stage.same(1.0, 1.0)
    assert client.is_closed


def test_the_connection_to_a_server_ends_with_its_check(asked, parsed, capsys):
    asked.facts = facts(busy="a slot is processing a request")
    with pytest.raises(BadInput):
        check_command._checked(parsed("http://x", "--timeout", "2", "--requests", "9", "--key", "k"), None)
    [client] = asked.clients
    assert (client.words, client.is_closed) == (("http://x", 2.0, 9, "k", None), True)


def test_a_control_in_use_is_refused_unless_it_may_be_overwritten(asked, parsed):
    asked.facts = facts(busy="1 slots hold conversations")
    with (pytest.raises(BadInput, match="1 slots hold conversations") as bad,
          check_command._control_stage(parsed("http://x"), "http://y")):  # fmt: skip
        pass
    assert (bad.value.file, bad.value.hint, asked.clients[0].is_closed) == ("http://y", "--yes overwrites them", True)
    with check_command._control_stage(parsed("http://x", "--yes"), "http://y") as stage:
        assert stage.server.busy


def test_a_control_that_may_not_be_asked_any_more_is_refused(asked, parsed):
    asked.end = http_client.Exhausted("stopped after 9 requests")
    with (pytest.raises(BadInput, match="stopped after 9 requests") as bad,
          check_command._control_stage(parsed("http://x"), "http://y")):  # fmt: skip
        pass
    assert (bad.value.file, bad.value.hint) == ("http://y", "raise --requests N or --seconds S")


def test_a_control_that_the_user_names_is_a_second_server(asked, parsed, monkeypatch):
    monkeypatch.setattr(check_command, "_checked", lambda args, control: (args.url, control))
    url, control = check_command._controlled(parsed("http://x", "--control", "http://y"))
    assert url == "http://x" and isinstance(control, SecondServer) and control.stage.http.url == "http://y"
    assert check_command._controlled(parsed("http://x")) == ("http://x", None)


def test_controls_of_a_started_server_have_other_micro_batches(asked, parsed, monkeypatch):
    """Checkpoints cut a prompt, except in the smallest micro-batches, which they cut nowhere else."""
    served = []

    @contextmanager
    def serve(*words):
        served.append(words)
        yield Namespace(url=f"http://{len(served)}")

    monkeypatch.setattr(check_command, "real_runs", lambda args: Namespace(serve=serve))

    def checked(args, control):
        for size in (32, 64):
            with control._start(size) as stage:
                assert stage.http.url == f"http://{len(served)}"
        return args.url

    monkeypatch.setattr(check_command, "_checked", checked)
    args = parsed("--real", "b1", "--layers", "GA", "--flags", "-np 1", "--gguf", "x.gguf")
    assert check_command._started(args) == "http://1" and args.model == "x.gguf"
    assert served == [("GA", ["-np", "1"]), ("GA", ["-np", "1", "-ub", "32"]),
                      ("GA", ["-np", "1", "-ub", "64", "--ctx-checkpoints", "0"])]  # fmt: skip
    args = parsed("--real", "b1", "--model", "mine", "--gguf", "x.gguf")
    check_command._started(args)
    assert args.model == "mine" and parsed("--real", "b1").model == ""


@pytest.mark.parametrize(("more", "line"), [
    ({}, "toy: native, 2 slots; this check overwrites what it has cached"),
    ({"adapters": (Adapter("one"),)}, "toy: native, 2 slots, 1 adapter; this check overwrites what it has cached"),
    ({"client": Namespace(way=Namespace(sentence="/v1/completions, text"))},
     "toy: native, /v1/completions, text; this check overwrites what it has cached"),
])  # fmt: skip
def test_the_server_is_named_before_it_is_asked(asked, parsed, capsys, more, line):
    asked.facts = facts(**more)
    http = Asked("http://x")
    assert check_command._identified(http, parsed("http://x")) == asked.facts
    assert capsys.readouterr().err == f"cachesim: {line}\n"
    assert check_command._identified(http, parsed("http://x", "--model", "I48 A")).chooses_rows
    asked.facts = facts(chooses_rows=True)
    assert not check_command._identified(http, parsed("http://x", "--model", "A")).chooses_rows


def test_a_server_in_use_is_refused_after_it_was_named(asked, parsed, capsys):
    asked.facts = facts(busy="a slot is processing a request")
    with pytest.raises(BadInput, match="a slot is processing a request") as bad:
        check_command._identified(Asked("http://x"), parsed("http://x"))
    assert bad.value.hint == "--yes overwrites them" and "toy: native" in capsys.readouterr().err
    assert check_command._identified(Asked("http://x"), parsed("http://x", "--yes")).busy


def result(name="branch", state="failed", **more):
    return Result(name, "same", "a sentence", state, **more)


def report_of(*results, **more):
    fields = {"measured": 0.0012, "tolerance": 0.012, "requests": 1234, **more}
    return ServerReport(facts(), Report(tuple(results)), **fields)


RULE = MatchingRuleSet("llama_cpp", "llama_cpp@b1", "GA", True, "cachesim why A 1", "R.1", "R.2 of R")
FOUND = Finding("A2/A", 1, "x", "y", ((1,),))
ABOUT = "(1,234 requests; tolerance 0.012, measured 0.0012)"


@pytest.mark.parametrize(("results", "more", "verdict"), [
    ([result()], {}, f"WRONG: 1 fault  {ABOUT}"),
    ([result(), result("append", like="branch")], {}, f"WRONG: 1 fault in 2 properties  {ABOUT}"),
    ([result(), result("append")], {}, f"WRONG: 2 faults  {ABOUT}"),
    ([result(state="ok")], {}, f"OK  {ABOUT}"), ([result(state="undecided")], {}, f"UNDECIDED  {ABOUT}"),
    ([result()], {"server_end": "died"}, f"SERVER DIED  {ABOUT}"),
    ([result(state="ok")], {"stopped": "interrupted"},
     "OK  (1,234 requests, interrupted; tolerance 0.012, measured 0.0012)"),
])  # fmt: skip
def test_a_verdict_has_its_numbers(results, more, verdict):
    assert check_command._verdict(report_of(*results, **more)) == verdict


def test_a_failed_property_is_printed_with_the_command_that_repeats_it():
    found = report_of(result(finding=FOUND), result("append", "ok"), result("answers", finding=FOUND), result("gone"),
                      rules={"branch": [RULE, RULE]})  # fmt: skip
    text = check_command._text(found, "http://x/a b").splitlines()
    assert text[0] == f"WRONG: 3 faults  {ABOUT}" and text[1:-5] == str(found.report).splitlines()
    assert text[-5:] == [
        "branch: cachesim check 'http://x/a b' --only same --history 'A2/A'",
        *["  llama_cpp@b1 gives a wrong answer on GA: R.1 decided"] * 2, "  cachesim why A 1",
        "answers: cachesim check 'http://x/a b' --only same --history 'A2/A'"]  # fmt: skip


def test_a_failure_with_adapters_is_repeated_in_its_own_section():
    found = report_of(Result("adapter", "isolation", "a sentence", "failed", finding=FOUND))
    assert check_command._text(found, "http://x").splitlines()[-1] == (
        "adapter: cachesim check http://x --only isolation --history 'A2/A'")


def test_a_check_as_data():
    fault = FoundFault("branch", "Wash5/A2/A", 2, 7, "another answer")
    more = {"rules": {"branch": [RULE]}, "found": (fault,), "stopped": "late", "image_tokens": 3}
    data = check_command._data(report_of(result(finding=FOUND), **more))
    assert {name: data[name] for name in data if name not in report_of(result()).report.data()} == {
        "schema": 2, "server": {"dialect": "native", "name": "toy", "slots": 2, "adapters": 0, "image_tokens": 3},
        "measured": 0.0012, "tolerance": 0.012, "requests": 1234, "faults": 1, "stopped": "late", "interrupted": False,
        "found": [asdict(fault)], "rules": {"branch": [
            {"profile": "llama_cpp@b1", "model": "GA", "rule": "R.1", "command": "cachesim why A 1"}]}}  # fmt: skip
    assert check_command._data(report_of(result(), interrupt=KeyboardInterrupt()))["interrupted"] is True


@pytest.mark.parametrize(("results", "interrupt", "code"), [
    ([result()], None, exits.BROKEN), ([result(state="ok")], None, exits.HOLDS),
    ([result(state="undecided")], None, exits.UNDECIDED), ([result()], KeyboardInterrupt(), 130),
    ([result(state="ok")], Terminated(signal.SIGTERM), 143),
])  # fmt: skip
def test_the_exit_code_of_a_check(results, interrupt, code):
    assert check_command._exit_code(report_of(*results, interrupt=interrupt)) == code


def test_reports_have_the_sentences_of_the_rules(files, parsed):
    args = parsed("http://x", "--junit", str(files[0]), "--summary", str(files[1]))
    check_command._write_files(args, Report((result(finding=FOUND),)), "WRONG", {"branch": ["a rule decided"]})
    assert "a rule decided" in files[0].read_text() and "http://x" in files[0].read_text()
    text = files[1].read_text()
    assert "WRONG" in text and "a rule decided" in text and "http://x" in text
    check_command._write_files(parsed("http://x"), Report(()), "", {})


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


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    check_command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []


def test_a_started_server_has_a_control_of_its_own(monkeypatch, capsys):
    asked = []

    def found(way):
        return lambda args: asked.append((way, args.url or args.real, args.control)) or report_of(result(state="ok"))

    monkeypatch.setattr(check_command, "_started", found("started"))
    monkeypatch.setattr(check_command, "_controlled", found("running"))
    assert main(["check", "--real", "b1", "--control", "http://y"]) == exits.BAD_INPUT
    assert "--control goes with a URL: --real starts its own control" in capsys.readouterr().err and asked == []
    for words in (["http://x", "--control", "http://y"], ["http://x"], ["--real", "b1"]):
        assert main(["check", *words]) == exits.HOLDS
    assert asked == [("running", "http://x", "http://y"), ("running", "http://x", ""), ("started", "b1", "")]
    assert capsys.readouterr().out.count(f"OK  {ABOUT}\n") == 3
