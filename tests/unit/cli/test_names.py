"""Tests of profile names: the newest recorded profile, former names, unknown names."""

from __future__ import annotations

import pytest

from cachesim.base import exits
from cachesim.engines.registry import ENGINES, latest, present_name, profiles, renamed
from cachesim.scenarios.load import load
from cachesim.scenarios.schema import DEFAULT_PROFILE
from tests.unit.cli.test_commands import call, call_json
from tests.unit.scenarios.samples import GOOD

NEWEST, OLD, NOW = "llama_cpp@b11549", "llama_cpp@after-28302", "llama_cpp@b11063"
LATEST = {"llama_cpp@latest": NEWEST, "vllm@latest": "vllm@0.33.0", "sglang@latest": "sglang@0.5.23"}


def test_latest_is_the_newest_of_the_line_and_the_default():
    kit = ENGINES["llama_cpp"]
    assert latest() == LATEST and kit.newest == kit.line[-1] == DEFAULT_PROFILE == NEWEST
    assert not {*latest(), *renamed()} & set(profiles()), "they are names of profiles, never profiles"


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


@pytest.mark.parametrize("old", ["llama_cpp@after-28302", "llama_cpp@head", "mlx_lm@v0.31.3"])
def test_an_old_name_keeps_working_and_says_the_new_one(capsys, old):
    from cachesim.cli.main import main

    assert main(["profiles", "show", old, "--json"]) == exits.HOLDS
    out, err = capsys.readouterr()
    assert renamed()[old] in out and err == f"cachesim: {old} was renamed: {renamed()[old]}\n"


def test_every_old_name_leads_to_a_profile():
    assert set(renamed().values()) <= set(profiles())


def test_the_former_id_of_a_scenario_keeps_working_and_says_the_new_one(capsys):
    from cachesim.cli.main import main

    assert main(["run", "seed-24143-dense"]) == exits.HOLDS
    out, err = capsys.readouterr()
    new = "llama-24143-entry-removed-dense"
    assert out.startswith(new) and f"cachesim: seed-24143-dense was renamed: {new}\n" in err


def test_a_file_may_use_an_old_name(capsys, tmp_path):
    from cachesim.cli.main import main

    file = tmp_path / "good.toml"
    file.write_text(GOOD.replace("llama_cpp@b10587", OLD))
    scenario = load(file, frozenset(profiles()))
    assert (scenario.profiles, set(scenario.expect)) == ((NOW,), {NOW})
    main(["run", str(file)])
    assert f"{file}: {OLD} was renamed: {NOW}" in capsys.readouterr().err


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
