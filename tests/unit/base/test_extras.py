"""Tests of install commands: each one in a message or page is of a form that tests/packaging runs."""

from __future__ import annotations

import shlex
import tomllib

import pytest

from cachesim.base import extras
from tests.packaging.install_commands import PACKAGES, find_commands, is_known, printed
from tests.shared import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_names_the_packages_of_the_extra_and_not_ours(extra):
    words = shlex.split(extras.install_command(extra))
    assert words[:2] == ["pip", "install"] and set(words[2:]) <= PACKAGES and extras.NAME not in " ".join(words)
    assert {one for one in EXTRAS[extra] if one in PACKAGES} <= set(words)


def test_the_extra_of_an_extra_is_named_too():
    assert extras.requirements("live") == ["gguf>=0.17"]
    assert set(extras.requirements("live")) < set(extras.requirements("dev"))


def test_a_wheel_gives_the_same_command_as_a_checkout(monkeypatch, tmp_path):
    """Without a checkout, the metadata of the installed distribution is read."""
    here = extras.install_command("live")
    monkeypatch.setattr(extras, "PROJECT", tmp_path / "pyproject.toml")
    assert extras.install_command("live") == here


def test_a_pyproject_of_another_project_is_not_read(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "PROJECT", tmp_path / "pyproject.toml")
    extras.PROJECT.write_text('[project]\nname = "other"\noptional-dependencies = { live = ["evil"] }\n')
    assert "evil" not in extras.install_command("live")


@pytest.mark.long
def test_every_command_in_the_tree_is_run_by_a_test():
    found = printed()
    assert "pip install ." in found and len(found) >= 12
    assert {command: place for command, place in found.items() if not is_known(command)} == {}


@pytest.mark.parametrize("text, commands", [
    ("prints its `pip install`, or `pip install 'h11>=0.14'`.", ["pip install 'h11>=0.14'"]),
    ("# `pip install a && pre-commit install`; `uvx b`", ["pip install a && pre-commit install", "uvx b"]),
    ("  run: python -m pip install \\\n    x   # comment", ["python -m pip install x"]),
    ("RUN pip install .\nuvx --from dist/*.whl cachesim", ["pip install .", "uvx --from dist/*.whl cachesim"]),
    ("the uv of a pip, installed", []),
])  # fmt: skip
def test_commands_of_a_text(text, commands):
    assert find_commands(text) == commands


@pytest.mark.parametrize("command", [
    "pip install numpi", "pip install git+https://host/cachesim", "apt install x", "pip install 'h11>=0.14' evil",
    "docker pull cachesim", "pip install . && rm -r x", "uvx ruff",
])  # fmt: skip
def test_an_unknown_command_is_noticed(command):
    assert not is_known(command)
