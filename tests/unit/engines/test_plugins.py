"""Engines and rule sets of installed packages: loading, cost without plug-ins, and bad plug-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines import plugins, registry
from cachesim.engines.llama_cpp.history import NEWEST
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.engines.rule import RULES
from tests.shared import ROOT, forget_engines, restore_rules

GOOD = """
from dataclasses import replace
from cachesim.engines.contract import RecordingFormat
from cachesim.engines.llama_cpp import ENGINE as LLAMA, PROFILES
from cachesim.engines.llama_cpp.profiles import NEWEST

TWIN = replace(PROFILES[NEWEST], name="twin@one")
ENGINE = replace(LLAMA, name="twin", profiles={"twin@one": TWIN}, recorded=RecordingFormat("twin.cpp"),
                 line=("twin@one",), beside={}, newest="twin@one", notes={})
MINE = replace(PROFILES[NEWEST], name="llama_cpp@packaged", data_header=8)
"""


def package(folder, name, code, points):
    """An installed package: a module, and the entry points that name things in it, by group."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"[{group}]\n{key} = {value}\n" for group, (key, value) in points.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


def cachesim(folder, *argv):
    """Exit code, stdout and stderr of a process that has this folder on its path."""
    done = subprocess.run(
        [sys.executable, "-m", "cachesim", *argv], capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder)},
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed packages, and registries as they were when the test is over."""
    forget_engines(monkeypatch)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert all(one.profiles for one in registry.BUILTIN.values())       # their rules are known before and after
    before, modules = dict(RULES), set(sys.modules)
    yield tmp_path
    restore_rules(before)
    for name in set(sys.modules) - modules:
        if not name.startswith("cachesim."):
            del sys.modules[name]


def test_a_package_brings_an_engine_and_a_rule_set(site):
    package(site, "twins", GOOD, {plugins.ENGINES: ("twin", "twins:ENGINE"), plugins.PROFILES: ("m", "twins:MINE")})
    assert {"twin@one", "llama_cpp@packaged"} <= set(registry.profiles())
    assert registry.engine_named("twin").manual is registry.DEFAULT.manual
    assert registry.engine_of("llama_cpp@packaged").beside["llama_cpp@packaged"] == NEWEST
    assert registry.notes()["llama_cpp@packaged"] == "from plug-in m (twins 1.0)"
    assert registry.latest()["twin@latest"] == "twin@one"
    assert "llama_cpp@packaged" not in PROFILES, "what we ship is not changed"


def test_a_module_gives_the_rule_sets_that_it_names(site):
    code = GOOD + "_STEP = replace(MINE, name='llama_cpp@step')\n"
    code += "from cachesim.engines.llama_cpp.profiles import B10587\n_TWIN, TWIN = TWIN, None\n"
    package(site, "several", code, {plugins.PROFILES: ("m", "several")})
    assert set(registry.profiles()) - {n for e in registry.BUILTIN.values() for n in e.profiles} == {
        "llama_cpp@packaged"
    }


@pytest.mark.parametrize("code, why", [
    ("1 / 0", "ZeroDivisionError: division by zero"),
    ("import sys; sys.exit(3)", "SystemExit: 3"),
    ("import nothing_of_the_kind", "ModuleNotFoundError: No module named 'nothing_of_the_kind'"),
    ("ENGINE = 7", "not an Engine: 7"),
    ("from cachesim.engines.llama_cpp import ENGINE", "engine name already taken: 'llama_cpp'"),
    (GOOD + "ENGINE = replace(ENGINE, name='other')", "rule set name 'twin@one', expected other@NAME"),
], ids=str)  # fmt: skip
def test_a_bad_engine_is_one_line_and_the_rest_is_there(site, capsys, code, why):
    package(site, "bad", code, {plugins.ENGINES: ("worse", "bad:ENGINE")})
    package(site, "twins", GOOD, {plugins.PROFILES: ("m", "twins:MINE")})
    assert "llama_cpp@packaged" in registry.profiles()
    assert capsys.readouterr().err == f"cachesim: plug-in worse (bad 1.0) skipped: {why}\n"
    registry.profiles()
    assert capsys.readouterr().err == "", "told once"


@pytest.mark.parametrize("code, why", [
    ("SETS = []", "contains no rule set"),
    (GOOD + "SETS = [replace(MINE, name='llama_cpp@b10587')]", "rule set name already taken: 'llama_cpp@b10587'"),
    (GOOD + "SETS = [replace(MINE, name='llama_cpp@latest')]", "rule set name already taken: 'llama_cpp@latest'"),
    (GOOD + "SETS = [replace(MINE, name='mine')]", "rule set name 'mine', expected ENGINE@NAME"),
    (GOOD + "SETS = [replace(MINE, name='other@mine')]", "rule set name 'other@mine', expected ENGINE@NAME"),
    (GOOD + "SETS = [replace(MINE, name='mlx_lm@x')]", "'mlx_lm@x' is not a rule set of mlx_lm"),
    (GOOD + "SETS = [replace(MINE, name='llama_cpp@x', ckpt_pick=7)]", "ckpt_pick of 'llama_cpp@x' is not a rule: 7"),
], ids=str)  # fmt: skip
def test_a_bad_rule_set_is_one_line(site, capsys, code, why):
    package(site, "bad", code, {plugins.PROFILES: ("worse", "bad:SETS")})
    assert set(registry.profiles()) == {name for one in registry.BUILTIN.values() for name in one.profiles}
    told = capsys.readouterr().err
    assert why in told and told.count("\n") == 1 and "plug-in worse (bad 1.0) skipped" in told


def test_a_rule_set_is_added_while_we_run(site):
    mine = replace(PROFILES[NEWEST], name="llama_cpp@mine")
    registry.ENGINES.add(mine, "from somewhere")
    assert registry.rules_of("llama_cpp@mine") is mine
    with pytest.raises(BadInput, match="already"):
        registry.ENGINES.add(mine, "from somewhere")


def test_without_plugins_nothing_is_imported(tmp_path):
    code = "import sys\nfrom cachesim.engines import registry\nregistry.profiles()\nprint(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": ""}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=env)
    assert "importlib.metadata" not in done.stdout.split()


def test_log_grammars_are_those_of_the_engines_and_import_none():
    code = ("import sys\nfrom cachesim.engines.registry import ENGINES\nfound = ENGINES.log_grammars()\n"
            "print(*sys.modules, file=sys.stderr)\n"
            "print(all(ENGINES[name].log() is grammar for name, grammar in found.items()), *found)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["True", *registry.BUILTIN]
    imported = {name for name in registry.BUILTIN if f"cachesim.engines.{name}.engine" in done.stderr.split()}
    assert imported == {registry.DEFAULT.name}


def test_a_package_of_an_engine_has_its_names_and_no_others():
    import cachesim.engines.vllm as package

    assert package.ENGINE is registry.BUILTIN["vllm"]
    assert not hasattr(package, "Nothing")


@pytest.mark.long
def test_commands_know_what_packages_bring(tmp_path):
    package(tmp_path, "twins", GOOD, {plugins.ENGINES: ("twin", "twins:ENGINE"), plugins.PROFILES: ("m", "twins:MINE")})
    package(tmp_path, "bad", "1 / 0", {plugins.ENGINES: ("worse", "bad:ENGINE")})
    line = "cachesim: plug-in worse (bad 1.0) skipped: ZeroDivisionError: division by zero\n"
    code, out, err = cachesim(tmp_path, "run", "A9/A.B5", "--model", "A", "-p", "twin@one", "--json")
    assert (code, err) == (0, line)
    assert [one["cache_n"] for one in json.loads(out)["runs"][0]["requests"]] == [0, 9]
    code, out, err = cachesim(tmp_path, "profiles", "list")
    assert (code, err) == (0, line)
    assert "twin@one" in out and "llama_cpp@packaged" in out and "plug-in m" in out
    code, out, err = cachesim(
        tmp_path, "fuzz", "-p", "twin@one", "--examples", "70", "-j", "2", "--model", "A", "--no-shrink", "--json"
    )
    assert (code, err, json.loads(out)["profile"]) == (0, line, "twin@one")
