"""Tests of profile names: the newest recorded profile, an engine, unknown names."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.engines.registry import ENGINES, latest, present_name, profiles
from cachesim.scenarios.schema import DEFAULT_PROFILE
from tests.unit.cli.test_commands import call, call_json
from tests.unit.scenarios.samples import GOOD

NEWEST = ENGINES["llama_cpp"].line[-1]
LATEST = {f"{name}@latest": ENGINES[name].line[-1] for name in ("llama_cpp", "vllm", "sglang")}


def test_latest_is_the_newest_of_the_line_and_the_default():
    assert latest() == LATEST and ENGINES["llama_cpp"].newest == DEFAULT_PROFILE == NEWEST
    assert not set(latest()) & set(profiles()), "they are names of profiles, never profiles"


@pytest.mark.parametrize("argv, place", [
    (("run", "S40"), lambda data: data["runs"][0]["profile"]),
    (("run", "S40", "-p", "llama_cpp@latest"), lambda data: data["runs"][0]["profile"]),
    (("fuzz", "--examples", "1", "--model", "A"), lambda data: data["profile"]),
    (("fuzz", "-p", "llama_cpp@latest", "--examples", "1", "--model", "A"), lambda data: data["profile"]),
    (("profiles", "show", "llama_cpp@latest"), lambda data: data["name"]),
    (("profiles", "show", "llama_cpp"), lambda data: data["name"]),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")  # fmt: skip
def test_a_command_line_names_the_build(capsys, argv, place):
    assert place(call_json(capsys, *argv)[1]) == NEWEST


def test_the_name_of_an_engine_is_its_newest_rule_set():
    assert {name: present_name(name) for name in ENGINES} == \
        {name: engine.newest or engine.line[-1] for name, engine in ENGINES.items()}


def test_a_file_names_the_build_and_not_the_latest(capsys, tmp_path):
    from cachesim.cli.main import main

    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace("llama_cpp@b10587", "llama_cpp@latest"))
    assert main(["run", str(file)]) == exits.BAD_INPUT
    assert f"unknown profile 'llama_cpp@latest' (the build is {NEWEST})" in capsys.readouterr().err


def test_the_list_of_profiles_names_the_newest(capsys):
    assert call_json(capsys, "profiles", "list")[1]["latest"] == LATEST
    assert "llama_cpp@latest" in call(capsys, "profiles", "list")[1]
