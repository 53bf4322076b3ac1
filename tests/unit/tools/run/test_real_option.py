"""Tests of --real and of the options that only --real reads."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.real_option import (
    add_real,
    compare_real,
    real_code,
    real_history,
    real_options,
    real_part,
    real_runs,
)

LINE = ["A20/A", "--model", "A"]


@pytest.mark.parametrize(("words", "given"), [
    (["run", *LINE], ["--install"]), (["run", *LINE], ["--gguf", "model.gguf"]), (["bisect", *LINE], ["--install"]),
    (["diff", *LINE, "-p", "llama_cpp@b11549", "-p", "llama_cpp@b9231"], ["--gguf", "model.gguf"]),
    (["fuzz", "--examples", "1"], ["--install"]), (["verify", "A20/A"], ["--gguf", "model.gguf"]),
    (["record", "A20/A"], ["--install"]),
], ids=lambda words: words[0])  # fmt: skip
def test_options_of_real_servers_need_real(capsys, words, given):
    assert main([*words, *given]) == exits.BAD_INPUT
    assert f"{given[0]} goes with --real" in capsys.readouterr().err


@pytest.mark.parametrize("words", [
    ["run", *LINE, "--real", "b11549"], ["bisect", *LINE, "--real", "all"], ["record", "A20/A", "--real", "b11549"],
], ids=lambda words: words[0])  # fmt: skip
def test_a_missing_model_file_is_named_before_anything_is_run(capsys, words, tmp_path):
    assert main([*words, "--gguf", str(tmp_path / "no.gguf")]) == exits.BAD_INPUT
    said = capsys.readouterr()
    assert "no.gguf: no such model" in said.err and said.out == ""


class GivenServers:
    """Real servers that note what they are asked for."""

    def __init__(self, options=None):
        self.options, self.asked = options, []

    def require(self):
        self.asked.append("require")

    def compare(self, scenarios):
        self.asked.append([repr(scenario) for scenario in scenarios])
        return [{"same": True} for _ in scenarios]

    def show(self, compared, shown):
        self.asked.append(("show", compared))

    def bisect(self, scenario):
        return {"of": repr(scenario)}


def given(*words):
    parser = ArgumentParser()
    add_real(parser)
    return real_options(Namespace(**vars(parser.parse_args(words)), real_runs=GivenServers))


def test_options_are_read_and_a_model_is_a_path():
    options = given("--real", "b1,b2", "--gguf", "a/b.gguf", "--install")
    assert options == ("b1,b2", Path("a/b.gguf"), True, GivenServers)
    assert given() == ("", None, False, None)


def test_servers_are_found_before_they_are_used_and_only_with_real():
    found = real_runs(given("--real", "b1"))
    assert found.asked == ["require"] and found.options.servers == "b1"
    assert real_runs(given()) is None


def test_a_history_is_that_of_the_scenario():
    servers, data = real_history(given("--real", "all"), from_line("A5/A"))
    assert data == {"of": "A5/A"} and servers.asked == []
    assert real_history(given(), from_line("A5/A")) is None


def test_equal_scenarios_are_compared_once_and_shown_unless_as_json():
    scenarios = [from_line(line) for line in ("A5/A", "B5", "A5/A")]
    asked = [repr(scenario) for scenario in scenarios[:2]]
    servers, two = GivenServers(), [{"same": True}] * 2
    assert compare_real(servers, scenarios, as_json=False) == two and servers.asked == [asked, ("show", two)]
    servers.asked.clear()
    assert compare_real(servers, scenarios, as_json=True) == two and servers.asked == [asked]
    assert compare_real(None, scenarios, as_json=False) == []


def test_a_difference_is_exit_code_1_and_an_undecided_comparison_3():
    assert real_code([{"same": True}, {"same": False}, {"same": None}]) == exits.BROKEN
    assert real_code([{"same": True}, {"same": None}]) == exits.UNDECIDED
    assert real_code([{"same": True}]) == real_code([]) == exits.HOLDS
    assert (real_part([]), real_part([{"same": True}])) == ({}, {"real": [{"same": True}]})
