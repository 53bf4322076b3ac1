"""Tests of profile names: the newest recorded profile, former names, unknown names."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.engines.registry import ENGINES, latest, notes, profiles, renamed
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import DEFAULT_PROFILE
from tests.unit.cli.test_commands import call, call_json
from tests.unit.scenarios.samples import GOOD

NEWEST, OLD, NOW = "llama_cpp@b11549", "llama_cpp@after-28302", "llama_cpp@b11063"


def test_latest_is_the_newest_of_the_line_and_the_default():
    kit = ENGINES["llama_cpp"]
    assert latest() == {"llama_cpp@latest": NEWEST} and kit.newest == kit.line[-1] == DEFAULT_PROFILE == NEWEST
    assert not {*latest(), *renamed()} & set(profiles()), "they are names of profiles, never profiles"


@pytest.mark.parametrize("argv, place", [
    (("try", "S40"), lambda data: data["runs"][0]["profile"]),
    (("try", "S40", "-p", "llama_cpp@latest"), lambda data: data["runs"][0]["profile"]),
    (("fuzz", "--examples", "1", "--model", "A"), lambda data: data["profile"]),
    (("fuzz", "-p", "llama_cpp@latest", "--examples", "1", "--model", "A"), lambda data: data["profile"]),
    (("profiles", "show", "llama_cpp@latest"), lambda data: data["name"]),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_a_command_line_names_the_build(capsys, argv, place):
    assert place(call_json(capsys, *argv)[1]) == NEWEST


def test_an_old_name_keeps_working_and_says_the_new_one(capsys):
    from cachesim.cli.main import main

    assert main(["try", "S40", "-p", OLD]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert NOW in out and err == f"cachesim: {OLD} was renamed: {NOW}\n"


def test_a_file_may_use_an_old_name(capsys, tmp_path):
    from cachesim.cli.main import main

    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace("llama_cpp@head", OLD))
    scenario = load(file, frozenset(profiles()))
    assert (scenario.profiles, set(scenario.expect)) == ((NOW,), {NOW})
    main(["run", str(file)])
    assert f"{file}: {OLD} was renamed: {NOW}" in capsys.readouterr().err


def test_a_file_names_the_build_and_not_the_latest(capsys, tmp_path):
    from cachesim.cli.main import main

    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace("llama_cpp@head", "llama_cpp@latest"))
    assert main(["run", str(file)]) == exits.BAD_INPUT
    assert f"unknown profile 'llama_cpp@latest' (the build is {NEWEST})" in capsys.readouterr().err


def test_head_says_that_it_is_not_the_newest(capsys):
    note = "b10587 of 2026-08-22; newest recorded: b11549"
    assert notes()["llama_cpp@head"] == note
    listed = call_json(capsys, "profiles", "list")[1]
    assert {one["name"]: one.get("note") for one in listed["profiles"]}["llama_cpp@head"] == note
    assert listed["latest"] == {"llama_cpp@latest": NEWEST}
    assert note in call(capsys, "profiles", "show", "llama_cpp@head")[1]
    assert "llama_cpp@latest" in call(capsys, "profiles", "list")[1]
