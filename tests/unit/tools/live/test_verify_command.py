"""Command ``verify``: which server is compared with which rule set, and what is printed and drawn."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.live import record_command, verify_command, verify_report
from cachesim.tools.live.llama_server.verify import case, remote
from cachesim.tools.live.verify_command import _shown, add_arguments, tolerance

URL = "http://127.0.0.1:9"


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("100", 100.0), ("0.5", 0.5)])
def test_a_tolerance_is_a_number_up_to_100(text, value):
    assert tolerance(text) == value


@pytest.mark.parametrize("text", ["-0.1", "100.1", "x", "nan", ""])
def test_another_tolerance_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="is not a number from 0 to 100"):
        tolerance(text)


def test_options_have_their_places():
    parser = ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["A5", "--server", "bin", "--model", "x.gguf", "--layers", "A", "--tolerance", "0.5"])
    assert (args.what, args.url, args.server, args.model) == ("A5", "", Path("bin"), Path("x.gguf"))
    assert (args.layers, args.tolerance) == ("A", 0.5)
    plain = parser.parse_args(["A5"])
    assert (plain.server, plain.model, plain.layers, plain.tolerance) == (None, None, "", None)


@pytest.fixture
def verified(monkeypatch):
    """Note what is verified; the servers are given."""
    asked = SimpleNamespace(calls=[], same=True, remotes=[], drawn=[], build="b11549")

    def found(scenario, profile, *what):
        asked.calls.append((repr(scenario), scenario.model, profile, *what))
        return SimpleNamespace(same=asked.same, profile=profile)

    @contextmanager
    def connected(url, rounding, within):
        asked.remotes.append((url, rounding))
        yield SimpleNamespace(build=asked.build)

    monkeypatch.setattr(case, "on_server", found)
    monkeypatch.setattr(case, "on_url", found)
    monkeypatch.setattr(case, "as_data", lambda one: {"requests": [], "undecided": "", "same": one.same})
    monkeypatch.setattr(remote, "Remote", connected)
    monkeypatch.setattr(record_command, "build_of", lambda binary: "b10587")
    monkeypatch.setattr(verify_report, "verify_report", lambda data: f"report of {data['scenario']}")
    monkeypatch.setattr(verify_command, "draw_cases", lambda args, cases, shown: asked.drawn.append(
        ([(repr(scenario), profile) for scenario, profile in cases], shown.note)))  # fmt: skip
    return asked


@pytest.mark.parametrize(("same", "code"), [(True, exits.HOLDS), (False, exits.BROKEN), (None, exits.UNDECIDED)])
def test_a_running_server_is_compared_with_the_rule_set_of_its_build(verified, capsys, same, code):
    verified.same = same
    assert main(["verify", "A5/A", "--url", URL, "--layers", "GA"]) == code
    assert verified.calls[0][:3] == ("A5/A", "GA", "llama_cpp@b11549") and verified.calls[0][4:] == ("GA", {})
    assert verified.remotes == [(URL, case.DEFAULT_FLAGS)]
    out, err = capsys.readouterr()
    assert out == "report of A5/A\n" and f"cachesim: {URL}: the scenario is run, then every prompt without " in err
    assert verified.drawn == [([("A5/A", "llama_cpp@b11549")], "The real server behaves like the simulator.")]


def test_a_rule_set_a_tolerance_and_options_may_be_given(verified, capsys):
    verified.build = ""
    assert main(["verify", "A5/A", "--url", URL]) == exits.BAD_INPUT
    assert f"{URL}: the server does not report its build (select a rule set with -p)" in capsys.readouterr().err
    words = ["--url", URL, "-p", "llama_cpp@b9518", "--tolerance", "0", "--set", "ctx_size=64", "--json"]
    assert main(["verify", "A5/A", *words]) == exits.HOLDS
    assert verified.calls[0][2] == "llama_cpp@b9518" and verified.calls[0][-1] == {"ctx_size": 64}
    assert verified.remotes[-1] == (URL, 0.0)
    assert json.loads(capsys.readouterr().out)["scenario"] == "A5/A"
    assert main(["verify", "llama-lesson-attention", "--url", URL, "-p", "llama_cpp@b10587", "--json"]) == exits.HOLDS
    assert json.loads(capsys.readouterr().out)["scenario"] == "llama-lesson-attention"


def test_a_server_is_started_with_its_model(verified, tmp_path):
    binary, model = tmp_path / "bin", tmp_path / "x.gguf"
    binary.touch()
    assert main(["verify", "A5/A", "--server", str(binary), "--model", str(model), "--layers", "GA"]) == exits.BAD_INPUT
    model.touch()
    words = ["--server", str(binary), "--model", str(model), "--layers", "GA"]
    assert main(["verify", "A5/A", *words, "--tolerance", "0.5"]) == exits.HOLDS
    assert verified.calls == [("A5/A", "GA", "llama_cpp@b10587", binary, model, "GA", 0.5)] and verified.remotes == []
    assert main(["verify", "A5/A", *words, "-p", "llama_cpp@b9518"]) == exits.HOLDS
    assert verified.calls[1][2] == "llama_cpp@b9518" and verified.calls[1][-1] is None


@pytest.mark.parametrize(("words", "said"), [
    ([], "expected --url URL, --real BUILD, or --server BIN with --model GGUF"),
    (["--model", "x"], "expected --url URL"), (["--url", URL, "--model", "y"], "expected --url URL"),
    (["--url", URL, "--server", "x", "--model", "y"], "expected --url URL"),
    (["--url", URL, "-p", "llama_cpp@b9518", "-p", "llama_cpp@b10587"], "expected at most one profile to compare with"),
    (["--real", "b1", "--url", URL], "--real excludes --url, --server, --model and -p"),
    (["--real", "b1", "-p", "llama_cpp@b9518"], "--real excludes"),
    (["--real", "b1", "--model", "x"], "--real excludes"), (["--real", "b1", "--server", "x"], "--real excludes"),
    (["--url", URL, "--gguf", "x"], "--gguf goes with --real (for example --real b11549)"),
    (["--url", URL, "--install"], "--install goes with --real"),
])  # fmt: skip
def test_one_server_is_named(verified, capsys, words, said):
    assert main(["verify", "A5", *words]) == exits.BAD_INPUT
    assert said in capsys.readouterr().err and verified.calls == []


def test_a_scenario_of_another_engine_is_refused(verified, capsys):
    name = "mlx-929-no-snapshot-below-8192-hybrid"
    assert main(["verify", name, "--url", URL]) == exits.BAD_INPUT
    assert "a scenario of mlx_lm cannot be compared with llama_cpp@b11549" in capsys.readouterr().err


@pytest.mark.parametrize(("same", "code"), [(True, exits.HOLDS), (False, exits.BROKEN), (None, exits.UNDECIDED)])
def test_real_builds_are_compared_each_under_its_rule_set(monkeypatch, capsys, same, code):
    compared = []
    servers = SimpleNamespace(compare=lambda some: compared.extend(some) or [{"same": same}], show=lambda data: None)
    monkeypatch.setattr(verify_command, "real_runs", lambda args: servers)
    assert main(["verify", "A5/A", "--real", "b1", "--layers", "GA", "--json"]) == code
    assert [(repr(one), one.model) for one in compared] == [("A5/A", "GA")]
    assert json.loads(capsys.readouterr().out)["real"] == [{"same": same}]
    assert main(["verify", "A5/A", "--real", "b1"]) == code and capsys.readouterr().out == ""


def test_a_picture_shows_the_first_request_that_differs():
    rows = [{"same": None, "number": 0, "first": ""}, {"same": False, "number": 1, "first": "x: 1 there, 0 here"},
            {"same": False, "number": 2, "first": "y"}]  # fmt: skip
    shown = _shown({"requests": rows, "undecided": ""})
    assert (shown.note, shown.focus) == ("The real server differs at request 1: x: 1 there, 0 here", 1)
    assert _shown({"requests": rows[:1], "undecided": "not decided"}).note == "not decided"
    alike = _shown({"requests": [], "undecided": ""})
    assert (alike.note, alike.focus) == ("The real server behaves like the simulator.", None)


def test_the_usage_names_the_value_of_each_option():
    parser = ArgumentParser(prog="verify")
    add_arguments(parser)
    usage = " ".join(parser.format_usage().split())
    for text in ("[--url URL]", "[--server BIN]", "[--model GGUF]", "[--timeout S]", "[--layers MODEL]",
                 "[--tolerance X]", "[--json]", "--limit", "--svg"):  # fmt: skip
        assert text in usage
    assert usage.endswith(" FILE|LINE")


def test_every_argument_has_a_help():
    parser = ArgumentParser()
    verify_command.add_arguments(parser)
    assert [one.dest for one in parser._actions if not one.help] == []
