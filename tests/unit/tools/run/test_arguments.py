"""Choice between exact arithmetic and provenance."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import replace

import pytest

from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.arguments import LONG, LONG_FILE, add_model, modes, profile_name

ANY = Namespace(exact=False, provenance=False)


def scenario(tokens, file=""):
    """Return a scenario of so many tokens of prompts and answers, from a file or from a line."""
    return replace(from_line(f"A{tokens - 1}>a1", model="A"), file=file)


@pytest.mark.parametrize(("file", "most"), [("", LONG), ("case.toml", LONG_FILE)])
def test_a_scenario_above_the_limit_runs_without_arithmetic(file, most, capsys):
    assert modes(ANY, [scenario(most, file)], LONG_FILE) == ["exact"]
    assert capsys.readouterr().err == ""
    assert modes(ANY, [scenario(most + 1, file)], LONG_FILE) == ["provenance"]
    reason = f"{most + 1:,} tokens, more than {most:,}: provenance without arithmetic (--exact enables arithmetic)"
    assert capsys.readouterr().err == f"cachesim: {reason}\n"


def test_a_file_has_the_limit_of_a_line_unless_a_command_gives_another():
    assert modes(ANY, [scenario(LONG + 1, "case.toml")]) == ["provenance"]


def test_a_requested_mode_is_used():
    assert modes(Namespace(exact=True, provenance=False), [scenario(LONG + 1)]) == ["exact"]
    assert modes(Namespace(exact=False, provenance=True), [scenario(2)]) == ["provenance"]


def test_the_empty_default_of_an_option_is_not_looked_up(monkeypatch):
    """A look-up imports every engine."""
    monkeypatch.setattr("cachesim.engines.build_names.resolve_name", lambda text: pytest.fail("looked up"))
    assert profile_name("") == ""


@pytest.mark.parametrize(("words", "model"), [
    ([], None), (["--model", "GA"], "GA"), (["-m", "qwen3-next"], "qwen3-next"),
])  # fmt: skip
def test_a_model_is_named_as_for_a_server(words, model):
    parser = ArgumentParser()
    add_model(parser)
    assert parser.parse_args(words).model == model
