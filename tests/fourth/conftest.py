"""The fourth engine: imported from its folder, and installed from its own wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from cachesim.engines.rule import RULES
from tests.shared import ROOT, forget_engines

BLOCKS = Path(__file__).parent / "blocks"


def install(patch, folder, engine):
    """Let the registry find an engine, as that of an installed package; the patch undoes it."""
    forget_engines(patch)
    found = folder / "brought-1.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: brought\nVersion: 1.0\n", "utf-8")
    (found / "entry_points.txt").write_text(f"[cachesim.engines]\n{engine.name} = brought:ENGINE\n", "utf-8")
    brought = ModuleType("brought")
    brought.ENGINE = engine
    patch.setitem(sys.modules, "brought", brought)
    patch.syspath_prepend(folder)


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """The engine, known as if it were installed. Afterwards all is as it was."""
    modules = set(sys.modules)
    patch = pytest.MonkeyPatch()
    try:
        patch.syspath_prepend(BLOCKS)
        from blockpool import ENGINE

        install(patch, tmp_path_factory.mktemp("package"), ENGINE)
        yield ENGINE
    finally:
        patch.undo()
        for rule_id in [one for one, fn in RULES.items() if fn.__module__.partition(".")[0] == "blockpool"]:
            del RULES[rule_id]
        for name in set(sys.modules) - modules:
            if name.partition(".")[0] == "blockpool":
                del sys.modules[name]


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Run a command of cachesim where the engine's wheel is installed; return exit code, stdout and stderr."""
    pytest.importorskip("setuptools", minversion="77.0.3", reason="the build backend is not installed (extra `dev`)")
    folder = tmp_path_factory.mktemp("fourth")
    shutil.copytree(BLOCKS, folder / "tree", ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    hook = "import sys, setuptools.build_meta as b; b.build_wheel(sys.argv[1])"
    subprocess.run([sys.executable, "-c", hook, folder], cwd=folder / "tree", check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    site = folder / "site"
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
                    "--disable-pip-version-check", "--target", site, wheel], check=True)  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)]), "COLUMNS": "200"}

    def run(*words):
        done = subprocess.run([sys.executable, "-m", "cachesim", *map(str, words)], cwd=folder, env=env,
                              capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run
