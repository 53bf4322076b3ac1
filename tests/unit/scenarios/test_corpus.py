"""Tests of scenario ids as arguments; an existing path takes precedence."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import corpus_files, corpus_root, could_be_id, is_file, named, own_profiles
from cachesim.scenarios.from_notation import from_line

SEED = "llama-24143-entry-removed-dense"
PACKED = {source: name for name, source in tomllib.loads(
    (corpus_root().parent / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"].items()}["scenarios"]


def test_an_id_names_its_file_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert named(SEED) == corpus_root() / "llama_cpp" / "threads" / f"{SEED}.toml"


def test_a_path_wins_over_an_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / SEED).mkdir()
    assert named(SEED) == Path(SEED)


@pytest.mark.parametrize(("text", "hint"), [
    ("llama-24143-entry-removed-dens", "(did you mean 'llama-24143-entry-removed-dense'?)"),
    ("qq-zz", "(see cachesim scenarios)"),
    ("my-own-cases", "(did you mean 'my-own-case'?)"),
])  # fmt: skip
def test_an_unknown_id_is_refused_with_the_nearest_name(tmp_path, monkeypatch, text, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-own-case").touch()
    with pytest.raises(BadInput, match="not a file, a scenario id or a line of requests") as refused:
        named(text)
    assert str(refused.value).endswith(hint)


@pytest.mark.parametrize("text", ["nowhere.toml", "a/b", "A40", "x" * 5000, "no\0where"])
def test_what_is_no_id_is_left_to_the_reader(text):
    assert named(text) == Path(text)


def test_an_empty_name_is_not_the_current_folder():
    with pytest.raises(BadInput, match="empty file name"):
        named("")


def test_every_id_has_the_form_that_requests_in_one_line_never_have():
    for name in corpus_files():
        assert could_be_id(name) and is_file(name)
        with pytest.raises(BadInput):
            from_line(name)


@pytest.mark.parametrize(("text", "file"), [
    ("S40.A60/S.B5", False), ("A", False), ("a/b" * 9999, False), ("x.toml", True), (".", True), ("qq-zz", True),
])  # fmt: skip
def test_a_line_is_told_from_a_file(text, file):
    assert is_file(text) is file


ROOTS = """
import importlib, sys
from pathlib import Path
from cachesim.base.errors import Crash
from cachesim.scenarios.corpus import corpus_root
def show():
    importlib.invalidate_caches()
    try:
        print(corpus_root())
    except Crash:
        print()
show()
Path(sys.argv[1]).mkdir()
Path("scenarios").mkdir()
show()
Path("pyproject.toml").touch()
show()
"""
"""Prints the folder that an installed package finds: without scenarios "", then beside an empty folder, then in what
looks like a checkout."""


def test_an_installed_package_has_its_own_scenarios(tmp_path):
    """Outside a checkout, whose mark is a pyproject.toml beside a folder of scenarios."""
    site = tmp_path / "site"
    shutil.copytree(Path(cachesim.__file__).parent, site / "cachesim", ignore=shutil.ignore_patterns("__pycache__"))
    packed = site.joinpath(*PACKED.split("."))
    done = subprocess.run([sys.executable, "-c", ROOTS, packed], cwd=site, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", str(packed), str(site / "scenarios")]


OLD, OWN = "llama_cpp@b10587", "llama_cpp@my-own"


@pytest.mark.parametrize("rules, told", [
    (("a.py", "../b.py"), "profile 'llama_cpp@my-own' is of sub/a.py, b.py, which does not exist"),
    (("../b.py", "own.py"), "profile 'llama_cpp@my-own' is of sub/own.py, Python code that runs only on request "
                            "(add -p sub/own.py)"),
    (("own.py", "two.py"), "profile 'llama_cpp@my-own' is of sub/own.py or sub/two.py, Python code that runs "
                           "only on request (add -p sub/own.py)"),
])  # fmt: skip
def test_profiles_of_a_file_of_rules_need_it(tmp_path, monkeypatch, rules, told):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "sub"
    folder.mkdir()
    for name in ("own.py", "two.py"):
        (folder / name).touch()
    scenario = replace(from_line("A4"), profiles=(OLD, OWN), rules=rules, file="sub/a.toml")
    with pytest.raises(BadInput) as bad:
        own_profiles(scenario, {OLD})
    assert str(bad.value) == f"sub/a.toml: {told}"
    assert own_profiles(scenario, {OLD, OWN}) == (OLD, OWN)


@pytest.mark.parametrize("text, own", [("a-b", True), ("a", False), ("a-", False), ("-a", False), ("a--b", False),
                                       ("A-b", False), ("a-b-c1", True), ("a-b/", False), ("a_b-c", False)])
def test_an_id_is_words_between_dashes(text, own):
    assert could_be_id(text) is own
