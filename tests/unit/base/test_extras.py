"""Tests of install commands: every command in a message, page or script works as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from importlib.metadata import requires

import pytest

from cachesim.base import extras
from tests.shared import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
COMMAND = re.compile(r"pip install ((?:-\S+ |'[^']*' ?|[\w.<>=]+ ?)+)")
LOCAL = {".", "-e", "pre-commit"}               # from a checkout; and a tool that is not in an extra
PLAIN = {one for listed in EXTRAS.values() for one in listed if not one.startswith(extras.NAME)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_a_command_names_the_packages_of_the_extra_and_not_ours(extra):
    words = shlex.split(extras.install_command(extra))
    assert words[:2] == ["pip", "install"] and set(words[2:]) <= PLAIN and extras.NAME not in " ".join(words)
    assert {one for one in EXTRAS[extra] if one in PLAIN} <= set(words)


def test_the_extra_of_an_extra_is_named_too():
    assert extras.requirements("live") == ["gguf>=0.17"]
    assert set(extras.requirements("live")) < set(extras.requirements("dev"))


def test_a_wheel_gives_the_same_command_as_a_checkout(monkeypatch, tmp_path):
    """Without a checkout, the metadata of the installed distribution is read, which may be older than the tree."""
    metadata = [f'{one} ; extra == "{extra}"' for extra, listed in EXTRAS.items() for one in listed]
    monkeypatch.setattr(extras, "requires", lambda name: ["numpy>=1.26", *metadata])
    here = {extra: extras.install_command(extra) for extra in EXTRAS}
    monkeypatch.setattr(extras, "PROJECT", tmp_path / "pyproject.toml")
    assert {extra: extras.install_command(extra) for extra in EXTRAS} == here
    monkeypatch.setattr(extras, "requires", requires)
    assert "gguf" in extras.install_command("live")


def test_a_pyproject_of_another_project_is_not_read(monkeypatch, tmp_path):
    monkeypatch.setattr(extras, "PROJECT", tmp_path / "pyproject.toml")
    extras.PROJECT.write_text('[project]\nname = "other"\noptional-dependencies = { live = ["evil"] }\n')
    assert "evil" not in extras.install_command("live")


def written():
    """Return every install command in a file under version control, with the file. Skips the changelog (history)."""
    listed = subprocess.run(["git", "ls-files", "*.md", "*.py", "*.sh", "*.yaml"], cwd=ROOT, capture_output=True,
                            text=True).stdout.split()  # fmt: skip
    for name in listed:
        if name not in ("CHANGELOG.md", "tests/unit/base/test_extras.py") and (ROOT / name).is_file():
            for found in COMMAND.finditer((ROOT / name).read_text("utf-8")):
                yield name, found[1]


def test_every_command_in_the_tree_can_be_used():
    if not (ROOT / ".git").exists():
        pytest.skip("needs the version control")
    found = list(written())
    assert ("README.md", ".") in found and len(found) >= 3
    for name, words in found:
        assert set(shlex.split(words.rstrip("`"))) <= PLAIN | LOCAL, f"{name}: pip install {words}"
